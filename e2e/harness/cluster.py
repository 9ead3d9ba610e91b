"""A Kubernetes cluster as the tests use it: namespaces of their own, the operator, the Filestore's S3 API.

The cluster is the one that KUBECONFIG names. It has the images FILESTORE_E2E_IMAGE and, for take-overs,
FILESTORE_E2E_MINIO_IMAGE, a default storage class, and Services that this machine reaches by their addresses.
"""

import json
import os
import subprocess
import time
import urllib.request
import uuid
from pathlib import Path

import pytest
import yaml

from harness.s3 import boto
from harness.servers import ACCESS, SECRET, binary, free_port
from harness.waiting import until

REPO = Path(__file__).parent.parent.parent
IMAGE = os.environ.get("FILESTORE_E2E_IMAGE", "")
MINIO_IMAGE = os.environ.get("FILESTORE_E2E_MINIO_IMAGE", "")
KEYS = {"root-user": ACCESS, "root-password": SECRET}

needs_cluster = pytest.mark.skipif(not (os.environ.get("KUBECONFIG") and IMAGE), reason="needs KUBECONFIG and FILESTORE_E2E_IMAGE: make e2e-operator")
needs_minio = pytest.mark.skipif(not MINIO_IMAGE, reason="needs FILESTORE_E2E_MINIO_IMAGE: make e2e-operator")


def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
    done = subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout if check else done.stdout + done.stderr


class Namespace:
    """A namespace of the test, under Kubernetes' rules "restricted"; it is not waited for when it goes."""

    def __init__(self, level: str = "restricted"):
        self.name = f"fst-{uuid.uuid4().hex[:8]}"
        kubectl("create", "namespace", self.name)
        kubectl("label", "namespace", self.name, f"pod-security.kubernetes.io/enforce={level}")

    def __call__(self, *arguments: str, **options) -> str:
        return kubectl("--namespace", self.name, *arguments, **options)

    def apply(self, *objects: dict) -> str:
        return self("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str) -> dict:
        return json.loads(self("get", kind, name, "-o", "json"))

    def items(self, kind: str, *arguments: str) -> list[dict]:
        return json.loads(self("get", kind, "-o", "json", *arguments))["items"]

    def pods(self, labels: str) -> list[dict]:
        """Those that are not on their way out."""
        return [pod for pod in self.items("pods", "-l", labels) if "deletionTimestamp" not in pod["metadata"]]

    def wait(self, condition: str, name: str = "files", seconds: int = 90) -> dict:
        """Waits for `Type=Status` or `Type=Status/Reason` of the current spec."""
        kind, _, wanted = condition.partition("=")
        status, _, reason = wanted.partition("/")

        def holds():
            found = self.get("filestore", name)
            told = [one for one in found.get("status", {}).get("conditions", []) if (one["type"], one["status"]) == (kind, status)]
            return found if any(reason in ("", one["reason"]) and one["observedGeneration"] == found["metadata"]["generation"] for one in told) else None

        return until(condition, holds, seconds, lambda: json.dumps(self.get("filestore", name).get("status"), indent=1))

    def until(self, what: str, holds, seconds: float = 30):
        return until(what, holds, seconds)

    def replace_pod(self, name: str = "files"):
        """The Filestore's pod goes without a chance to tidy up; waits until its successor serves."""
        old = self.pods(f"filestore.ryax.tech/name={name}")[0]["metadata"]
        self("delete", "pod", old["name"], "--grace-period=0", "--force")

        def replaced() -> bool:
            pods = [pod for pod in self.pods(f"filestore.ryax.tech/name={name}") if pod["metadata"]["uid"] != old["uid"]]
            return any(one["type"] == "Ready" and one["status"] == "True" for pod in pods for one in pod["status"].get("conditions", []))

        until("another pod is ready", replaced, 60)
        self.wait("Ready=True/Serving", name)

    def shell(self, command: str, claim: str | None = None, user: int = 1200, group: int = 1200) -> str:
        """What a shell command prints that a pod runs, with busybox's programs; `claim` is mounted read-only at /drive."""
        name = f"shell-{uuid.uuid4().hex[:8]}"
        container = {"name": "shell", "image": MINIO_IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["/bin/busybox", "sh", "-c", command],
                     "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True, "runAsNonRoot": True,
                                         "runAsUser": user, "runAsGroup": group, "seccompProfile": {"type": "RuntimeDefault"}}}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        if claim:
            container["volumeMounts"] = [{"name": "drive", "mountPath": "/drive", "readOnly": True}]
            pod["volumes"] = [{"name": "drive", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}]
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod})
        self("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
        told = self("logs", name)
        self("delete", "pod", name)
        return told

    def events(self) -> list[tuple[str, str]]:
        """(reason, note) of all that the operator told."""
        return [(event["reason"], event["note"]) for event in self.items("events.events.k8s.io") if event.get("reportingController") == "filestore-operator"]

    def delete(self):
        kubectl("delete", "namespace", self.name, "--wait=false")

    def report(self) -> list[tuple[str, str]]:
        """What may tell why a test failed: objects, events, logs."""
        told = [("objects", self("get", "all,pvc,fst", "-o", "wide", check=False)),
                ("Filestores", self("get", "fst", "-o", "yaml", check=False)[-8000:]),
                ("events", self("get", "events", "--sort-by=.lastTimestamp", check=False)[-6000:]),
                ("pods", self("describe", "pods", check=False)[-8000:])]
        for pod in self("get", "pods", "-o", "name", check=False).split():
            told.append((f"log of {pod}", self("logs", pod, "--all-containers", "--prefix", "--tail=40", check=False)[-5000:]))
            told.append((f"earlier log of {pod}", self("logs", pod, "--all-containers", "--prefix", "--tail=40", "--previous", check=False)[-3000:]))
        return [(f"{title} of {self.name}", text) for title, text in told]


class Operator:
    """The operator as a process of the test, restarted at will.

    It has the rights of its ServiceAccount: what the Role in manifests/operator lacks fails here.
    """

    def __init__(self, namespace: Namespace, scratch: Path):
        self.namespace, self.log, self.process = namespace, scratch / "operator.log", None
        self.port = free_port()
        cluster = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))["clusters"][0]["cluster"]
        self.kubeconfig = scratch / "operator.kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": rights(namespace)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": namespace.name}}],
        }))

    def start(self) -> "Operator":
        command = [binary(), "operator", "--image", IMAGE, "--metrics-listen", f"127.0.0.1:{self.port}"]
        # Variables of its Deployment that hold on this machine, too.
        container = yaml.safe_load((REPO / "manifests/operator/deployment.yaml").read_text())["spec"]["template"]["spec"]["containers"][0]
        variables = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
        self.process = subprocess.Popen(command, env={**variables, "KUBECONFIG": str(self.kubeconfig), "PATH": os.environ["PATH"]}, stderr=self.log.open("a"))
        return self

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=20) == 0, self.log.read_text()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def metric(self, start: str) -> float:
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5).read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(start))

    def quiet(self, seconds: float = 3) -> bool:
        """Whether nothing was written for a while."""
        before = self.metric("filestore_operator_writes_total")
        time.sleep(seconds)
        return self.metric("filestore_operator_writes_total") == before

    def report(self) -> list[tuple[str, str]]:
        return [("log of the operator", self.log.read_text()[-8000:])]


def rights(namespace: Namespace) -> str:
    """Role and account of manifests/operator in this namespace; a token for the account."""
    account, role, binding = (yaml.safe_load((REPO / f"manifests/operator/{file}.yaml").read_text()) for file in ("service-account", "role", "role-binding"))
    binding["subjects"][0]["namespace"] = namespace.name
    namespace.apply(account, role, binding)
    return namespace("create", "token", "filestore-operator", "--duration=8h").strip()


def secret(name: str = "keys", **values: str) -> dict:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values or KEYS}


def filestore(name: str = "files", **spec) -> dict:
    return {"apiVersion": "filestore.ryax.tech/v1alpha1", "kind": "Filestore", "metadata": {"name": name},
            "spec": {"credentials": {"secretRef": {"name": "keys"}}, "storage": {"size": "1Gi"}, **spec}}


class Endpoint:
    """An S3 server in the cluster, for the clients of harness.s3."""

    ca = None

    def __init__(self, host: str, access: str = ACCESS, secret: str = SECRET):
        self.host, self.endpoint = host, f"http://{host}"
        self.access, self.secret, self.region = access, secret, "us-east-1"


def client(namespace: Namespace, service: str = "files", port: int = 9000, **config):
    """boto3 through a Service."""
    address = namespace.get("service", service)["spec"]["clusterIP"]
    return boto(Endpoint(f"{address}:{port}"), **{"retries": {"total_max_attempts": 10}, **config})

"""A legacy store in the cluster: MinIO as Bitnami's chart 17.0.21 installs it for a Ryax site.

Release `ryax`, chart values as Ryax sets them: an existing Secret, no ServiceAccount, no console, user 1200. The five
objects, their names, labels, selectors and ports are those that the chart renders; the image is laid out as Bitnami's
(e2e/cluster/test-images).
"""

import json

from harness.cluster import KEYS, MINIO_IMAGE, Namespace, client, secret

NAME = "ryax-minio"
SECRET = "ryax-minio-secret"
# What Deployment, Service, NetworkPolicy and PodDisruptionBudget select.
SELECTOR = {"app.kubernetes.io/name": "minio", "app.kubernetes.io/instance": "ryax", "app.kubernetes.io/component": "minio", "app.kubernetes.io/part-of": "minio"}
LABELS = SELECTOR | {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": "2025.7.23", "helm.sh/chart": "minio-17.0.21", "ryax.tech/resource-name": "minio"}
RELEASE = {"meta.helm.sh/release-name": "ryax"}

USER, GROUP, FS_GROUP = 1200, 1001, 1200
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "privileged": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True,
              "runAsUser": USER, "runAsGroup": GROUP, "seccompProfile": {"type": "RuntimeDefault"}}


def objects(namespace: str, size: str = "1Gi") -> list[dict]:
    def made(api: str, kind: str, spec: dict, **more) -> dict:
        annotations = RELEASE | {"meta.helm.sh/release-namespace": namespace}
        return {"apiVersion": api, "kind": kind, "metadata": {"name": NAME, "labels": LABELS, "annotations": annotations}, "spec": spec, **more}

    container = {
        "name": "minio", "image": MINIO_IMAGE, "imagePullPolicy": "IfNotPresent", "securityContext": RESTRICTED,
        "env": [{"name": name, "value": value} for name, value in {
            "BITNAMI_DEBUG": "false", "MINIO_DISTRIBUTED_MODE_ENABLED": "no", "MINIO_SCHEME": "http", "MINIO_FORCE_NEW_KEYS": "no",
            "MINIO_ROOT_USER_FILE": "/opt/bitnami/minio/secrets/root-user", "MINIO_ROOT_PASSWORD_FILE": "/opt/bitnami/minio/secrets/root-password",
            "MINIO_SKIP_CLIENT": "yes", "MINIO_API_PORT_NUMBER": "9000", "MINIO_BROWSER": "off", "MINIO_PROMETHEUS_AUTH_TYPE": "public",
            "MINIO_DATA_DIR": "/bitnami/minio/data"}.items()],
        "ports": [{"name": "api", "containerPort": 9000}],
        "livenessProbe": {"httpGet": {"path": "/minio/health/live", "port": "api", "scheme": "HTTP"}, "initialDelaySeconds": 5, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 5},
        "readinessProbe": {"tcpSocket": {"port": "api"}, "initialDelaySeconds": 5, "periodSeconds": 5, "timeoutSeconds": 1, "failureThreshold": 5},
        "volumeMounts": [{"name": "empty-dir", "mountPath": "/tmp", "subPath": "tmp-dir"}, {"name": "empty-dir", "mountPath": "/opt/bitnami/minio/tmp", "subPath": "app-tmp-dir"},
                         {"name": "empty-dir", "mountPath": "/.mc", "subPath": "app-mc-dir"}, {"name": "minio-credentials", "mountPath": "/opt/bitnami/minio/secrets/"},
                         {"name": "data", "mountPath": "/bitnami/minio/data"}],
    }
    pod = {
        "serviceAccountName": "default", "automountServiceAccountToken": False,
        "securityContext": {"fsGroup": FS_GROUP, "fsGroupChangePolicy": "OnRootMismatch", "supplementalGroups": [], "sysctls": []},
        "containers": [container],
        "volumes": [{"name": "empty-dir", "emptyDir": {}}, {"name": "minio-credentials", "secret": {"secretName": SECRET}}, {"name": "data", "persistentVolumeClaim": {"claimName": NAME}}],
    }
    return [
        made("networking.k8s.io/v1", "NetworkPolicy", {"podSelector": {"matchLabels": SELECTOR}, "policyTypes": ["Ingress", "Egress"], "egress": [{}], "ingress": [{"ports": [{"port": 9000}]}]}),
        made("policy/v1", "PodDisruptionBudget", {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}}),
        made("v1", "PersistentVolumeClaim", {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}),
        made("v1", "Service", {"type": "ClusterIP", "ports": [{"name": "tcp-api", "port": 9000, "targetPort": "api"}], "selector": SELECTOR}),
        # No `replicas`: the chart leaves it to the API server, so nobody puts it back after scaling.
        made("apps/v1", "Deployment", {"selector": {"matchLabels": SELECTOR}, "strategy": {"type": "Recreate"}, "template": {"metadata": {"labels": LABELS}, "spec": pod}}),
    ]


class Legacy:
    """The installed store."""

    def __init__(self, namespace: Namespace):
        self.namespace = namespace
        namespace.apply(secret(SECRET, **KEYS))
        self._install()
        namespace("rollout", "status", f"deployment/{NAME}", "--timeout=90s")

    def _install(self):
        self.namespace.apply(*objects(self.namespace.name))

    def client(self, **config):
        """boto3 through the old Service, whoever serves it."""
        return client(self.namespace, NAME, **config)

    def pods(self) -> list[dict]:
        return [pod for pod in self.namespace.pods(",".join(f"{key}={value}" for key, value in SELECTOR.items())) if self._is_ours(pod)]

    def _is_ours(self, pod: dict) -> bool:
        return any(container["name"] == "minio" for container in pod["spec"]["containers"])

    def scale(self, replicas: int):
        self.namespace("scale", f"deployment/{NAME}", f"--replicas={replicas}")
        if replicas:
            self.namespace("rollout", "status", f"deployment/{NAME}", "--timeout=90s")
        else:
            self.namespace.until("the legacy pods go", lambda: not [pod for pod in self.namespace.items("pods") if self._is_ours(pod)], 60)

    def drive(self) -> dict[str, str]:
        """Mode, owner, group, size, mtime and ctime of each file of the drive and the SHA-256 of what it holds."""
        look = 'cd /drive; find . -exec stat -c "%n|%f %u %g %s %Y %Z" {} +; echo ---; find . -type f -exec sha256sum {} +'
        about, _, sums = self.namespace.shell(look, NAME, USER, GROUP).partition("---\n")
        told = dict(line.split("|") for line in about.splitlines())
        for line in sums.splitlines():
            digest, path = line.split("  ", 1)
            told[path] += " " + digest
        return told

    def claim(self) -> dict:
        """What of the claim and its volume nobody may change."""
        claim = self.namespace.get("pvc", NAME)
        volume = json.loads(self.namespace("get", "pv", claim["spec"]["volumeName"], "-o", "json"))
        return {"uid": claim["metadata"]["uid"], "owners": claim["metadata"].get("ownerReferences"), "spec": claim["spec"], "volume": volume["metadata"]["uid"], "volumeSpec": volume["spec"]}

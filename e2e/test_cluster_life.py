"""What happens to a store on a real cluster: its pod is killed, its node loses power, it has neighbours; the operator as it is installed."""

import os
import shutil
import subprocess

import pytest
import yaml

from harness.cluster import IMAGE, REPO, client, filestore, needs_cluster, secret, until
from harness.s3 import pattern, snapshot

pytestmark = needs_cluster
# Folder of the scripts that stop and start the node, when the cluster is ours.
NODE = os.environ.get("FILESTORE_E2E_NODE", "")


def fill(s3) -> dict:
    """Some objects; all that S3 says of them."""
    s3.put_object(Bucket="uploads", Key="a/b", Body=b"hello", ContentType="text/x-test", Metadata={"origin": "studio"}, Tagging="stage=prod")
    s3.put_object(Bucket="uploads", Key="large", Body=pattern(3 << 20))
    return snapshot(s3)


def test_a_killed_pod_loses_nothing(namespace, operator):
    namespace.apply(secret(), filestore(buckets=[{"name": "uploads"}]))
    namespace.wait("Ready=True/Serving")
    objects = fill(client(namespace))
    namespace.replace_pod()
    assert snapshot(client(namespace)) == objects
    # Killed inside of the pod, as for want of memory: the container starts again, the pod stays.
    pod = namespace.pods("filestore.ryax.tech/name=files")[0]["metadata"]["name"]
    if NODE:
        container = namespace.get("pod", pod)["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        subprocess.run([f"{NODE}/node", "ctr", "-n", "k8s.io", "task", "kill", "--signal", "SIGKILL", container], check=True, timeout=30)
        until("the container was started again", lambda: (told := namespace.get("pod", pod)["status"]["containerStatuses"][0])["restartCount"] == 1 and told["ready"], 60)
        namespace.wait("Ready=True/Serving")
        assert snapshot(client(namespace)) == objects


@pytest.mark.alone
@pytest.mark.skipif(not NODE, reason="the node of this cluster is not ours to stop")
def test_a_node_that_loses_power_comes_back_with_everything(namespace, operator):
    namespace.apply(secret(), filestore(buckets=[{"name": "uploads"}]))
    namespace.wait("Ready=True/Serving")
    objects = fill(client(namespace))
    claim = namespace.get("pvc", "files")["metadata"]["uid"]
    owner = ["--owner", os.environ["FILESTORE_E2E_OWNER"]] if os.environ.get("FILESTORE_E2E_OWNER") else []
    subprocess.run([f"{NODE}/down", "--keep-state"], check=True, timeout=120)
    assert operator.process.poll() is None, "losing the API server ends no process"
    subprocess.run([f"{NODE}/up", *owner], check=True, timeout=600, stdout=subprocess.DEVNULL)
    namespace("rollout", "status", "deployment/files", "--timeout=120s")
    namespace.wait("Ready=True/Serving", seconds=120)
    s3 = client(namespace)
    assert snapshot(s3) == objects
    assert namespace.get("pvc", "files")["metadata"]["uid"] == claim
    # The operator acts again, too.
    namespace("scale", "deployment", "files", "--replicas=0")
    until("drift is put back", lambda: namespace.get("deployment", "files")["spec"]["replicas"] == 1, 60)
    namespace.wait("Ready=True/Serving")


def test_two_in_one_namespace_know_nothing_of_each_other(namespace, operator):
    namespace.apply(secret(), filestore("left", buckets=[{"name": "uploads"}]), filestore("right", buckets=[{"name": "uploads"}]))
    for name in ("left", "right"):
        namespace.wait("Ready=True/Serving", name)
    left, right = client(namespace, "left"), client(namespace, "right")
    left.put_object(Bucket="uploads", Key="which", Body=b"left")
    right.put_object(Bucket="uploads", Key="which", Body=b"right")
    # Each Service leads to one of them alone.
    for _ in range(10):
        assert left.get_object(Bucket="uploads", Key="which")["Body"].read() == b"left"
        assert right.get_object(Bucket="uploads", Key="which")["Body"].read() == b"right"
    namespace("delete", "filestore", "left")
    until("its Deployment goes", lambda: namespace("get", "deployment", "-o", "name").split() == ["deployment.apps/right"])
    assert right.get_object(Bucket="uploads", Key="which")["Body"].read() == b"right"
    assert sorted(namespace("get", "pvc", "-o", "name").split()) == ["persistentvolumeclaim/left", "persistentvolumeclaim/right"]
    namespace.wait("Ready=True/Serving", "right")


def test_the_operator_as_it_is_installed(namespace, tmp_path):
    """`kubectl apply -k` of an overlay as manifests/operator/kustomization.yaml describes it: the operator runs as a pod with its account."""
    name, _, tag = IMAGE.rpartition(":")
    overlay = REPO / "target" / f"overlay-{namespace.name}"
    overlay.mkdir(parents=True)
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({
        "resources": ["../../manifests/operator"], "namespace": namespace.name,
        "images": [{"name": "docker.io/ryaxtech/filestore", "newName": name, "newTag": tag}]}))
    try:
        namespace("apply", "--server-side", "--force-conflicts", "-k", str(overlay))
    finally:
        (overlay / "kustomization.yaml").unlink()
        overlay.rmdir()
    namespace("rollout", "status", "deployment/filestore-operator", "--timeout=60s")
    namespace.apply(secret(), filestore(image=IMAGE, buckets=[{"name": "uploads"}]))
    namespace.wait("Ready=True/Serving")
    fill(client(namespace))
    namespace.until("the log tells of no errors", lambda: '"level":"ERROR"' not in namespace("logs", "deployment/filestore-operator"), 1)
    pod = namespace.pods("app.kubernetes.io/name=filestore-operator")[0]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    # A new pod takes over from the old one, which gives the lease back.
    namespace("rollout", "restart", "deployment/filestore-operator")
    namespace("rollout", "status", "deployment/filestore-operator", "--timeout=60s")
    namespace("patch", "filestore", "files", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    namespace.wait("Ready=False/Suspended")


@pytest.mark.skipif(not shutil.which("helm"), reason="needs helm")
def test_the_operator_as_its_chart_installs_it(namespace):
    """Filestores that name no image get that of the operator; a release that goes takes no store with it."""
    def helm(*arguments: str):
        done = subprocess.run(["helm", "--namespace", namespace.name, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    # The definition is there already: tests share it.
    helm("install", "operator", str(REPO / "charts/filestore-operator"), "--set", f"image={IMAGE},crd.install=false", "--wait", "--timeout", "60s")
    namespace.apply(secret(), filestore(buckets=[{"name": "uploads"}]))
    namespace.wait("Ready=True/Serving")
    objects = fill(client(namespace))
    pod = namespace.pods("filestore.ryax.tech/name=files")[0]["metadata"]["uid"]
    helm("upgrade", "operator", str(REPO / "charts/filestore-operator"), "--reuse-values", "--set", "resources.limits.memory=192Mi", "--wait", "--timeout", "60s")
    namespace.wait("Ready=True/Serving")
    helm("uninstall", "operator", "--wait", "--timeout", "60s")
    assert snapshot(client(namespace)) == objects
    assert [one["metadata"]["uid"] for one in namespace.pods("filestore.ryax.tech/name=files")] == [pod], "the store's pod was not touched"

"""charts/filestore, installed by Helm on a real cluster: a fresh store, and a take-over of Bitnami's MinIO. No operator runs."""

import json

import pytest

from harness.cluster import IMAGE, client, needs_cluster, needs_minio, secret
from harness.helm import CHART, helm, needs_helm
from harness.legacy import NAME, SECRET, SELECTOR, Legacy
from harness.s3 import describe, snapshot
from test_takeover import assert_same, fill

pytestmark = [needs_cluster, needs_helm]


def values(secret_name: str = "keys", **more) -> dict:
    return {"fullnameOverride": "files", "image": IMAGE, "credentials": {"secretRef": {"name": secret_name}}, "storage": {"size": "1Gi"}, **more}


def install(namespace, tmp_path, given: dict):
    file = tmp_path / "values.json"
    file.write_text(json.dumps(given))
    return helm("upgrade", "files", str(CHART), "--install", "--namespace", namespace.name, "--values", str(file), "--wait", "--timeout", "180s").stdout


def test_a_fresh_store_outlives_its_release(namespace, tmp_path):
    namespace.apply(secret())
    more = {"buckets": [{"name": "uploads"}], "service": {"compatibility": [{"name": "old-files", "port": 80}]}, "networkPolicy": {"enabled": True},
            "monitoring": {"dashboard": {"enabled": True}}, "site": {"name": "lyon"}}
    told = install(namespace, tmp_path, values(**more))
    assert f"http://files.{namespace.name}:9000" in told and "delete pvc files" in told
    client(namespace).put_object(Bucket="uploads", Key="a/b", Body=b"hello", ContentType="text/x-test")
    # The other name leads to the same pod.
    assert client(namespace, "old-files", 80).get_object(Bucket="uploads", Key="a/b")["Body"].read() == b"hello"
    site = namespace.get("configmap", "files-site")["data"]
    assert (site["site"], site["endpoint"], site["buckets"]) == ("lyon", f"http://files.{namespace.name}:9000", "uploads")
    claim = namespace.get("pvc", "files")["metadata"]
    pod = namespace.pods("filestore.ryax.tech/name=files")[0]["metadata"]

    # The same values again: nothing is replaced.
    install(namespace, tmp_path, values(**more))
    assert namespace.pods("filestore.ryax.tech/name=files")[0]["metadata"]["uid"] == pod["uid"]

    # Less is asked for: what was optional goes, the data does not.
    install(namespace, tmp_path, values(pod={"annotations": {"example.com/changed": "yes"}}))
    names = namespace("get", "service,configmap,networkpolicy", "-o", "name").split()
    assert not [name for name in names if "old-files" in name or "files-" in name or "networkpolicy" in name], names
    assert client(namespace).get_object(Bucket="uploads", Key="a/b")["ContentType"] == "text/x-test"

    helm("uninstall", "files", "--namespace", namespace.name, "--wait")
    assert "files" not in namespace("get", "deployment", "-o", "name")
    assert namespace.get("pvc", "files")["metadata"]["uid"] == claim["uid"]
    # Helm takes up what it left, since the claim carries the same release's name.
    install(namespace, tmp_path, values())
    assert namespace.get("pvc", "files")["metadata"]["uid"] == claim["uid"]
    assert client(namespace).get_object(Bucket="uploads", Key="a/b")["Body"].read() == b"hello"


@pytest.mark.minutes(1)
@needs_minio
def test_takes_over_from_bitnamis_minio(namespace, tmp_path):
    legacy = Legacy(namespace)
    old = legacy.client()
    fill(old)
    objects = snapshot(old)
    # A key that MinIO's own listings hide lies on the drive all the same.
    objects["ryax-filestore"]["shadow/p/child"] = describe(old, "ryax-filestore", "shadow/p/child")
    legacy.scale(0)
    drive, claim = legacy.drive(), legacy.claim()

    given = values(SECRET, pod={"labels": SELECTOR}, migration={"id": "first", "verify": "bytes", "source": {"existingClaim": NAME}})
    told = install(namespace, tmp_path, given)
    assert "--container migrate" in told
    # The Service of the other chart leads here, untouched; the same keys.
    assert_same(snapshot(legacy.client()), objects)
    assert "MinIO" not in legacy.client().list_buckets()["ResponseMetadata"]["HTTPHeaders"].get("server", "")
    assert legacy.drive() == drive
    assert legacy.claim() == claim

    # From now on the volume belongs to its clients: a new pod copies nothing again.
    now = legacy.client()
    now.put_object(Bucket="ryax-filestore", Key="after", Body=b"the move")
    now.delete_object(Bucket="ryax-filestore", Key="executions-data/1")
    after = snapshot(now)
    install(namespace, tmp_path, given | {"pod": {"labels": SELECTOR, "annotations": {"example.com/changed": "yes"}}})
    assert_same(snapshot(legacy.client()), after)
    assert legacy.drive() == drive

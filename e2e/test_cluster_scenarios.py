"""Take-overs of Bitnami's MinIO on a real cluster when something is in the way, and around the releases that own it."""

import json
import os
import re
import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from harness.cluster import IMAGE, KEYS, REPO, Endpoint, client, filestore, kubectl, needs_cluster, needs_minio, secret
from harness.consumer import Consumer
from harness.helm import needs_helm
from harness.legacy import NAME, SECRET, Legacy, objects
from harness.s3 import boto, snapshot
from test_cluster_cutover import record, replicas, takes_over
from test_takeover import assert_same, fill

pytestmark = [needs_cluster, needs_minio]

BUCKET = "ryax-filestore"
# Folder of the script that runs a command on the node, when the cluster is ours.
NODE = os.environ.get("FILESTORE_E2E_NODE", "")
SAID_WITHIN = 30  # seconds in which people are told what is in the way


def on_node(*command: str) -> str:
    return subprocess.run([f"{NODE}/node", *command], check=True, capture_output=True, text=True, timeout=60).stdout


def shown(s3) -> dict:
    """All objects but the one that MinIO holds and does not list."""
    found = snapshot(s3)
    found[BUCKET].pop("shadow/p/child", None)
    return found


def is_minio(s3) -> bool:
    return "MinIO" in s3.list_buckets()["ResponseMetadata"]["HTTPHeaders"].get("server", "")


def condition(namespace, kind: str, name: str = "files") -> dict:
    found = namespace.get("filestore", name).get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


def owned(drive: dict[str, str]) -> dict[str, str]:
    """Mode, owner and group of all that MinIO does not come and go with by itself, and size, mtime and content of objects."""
    told = {}
    for path, line in drive.items():
        mode, user, group, size, mtime, _, *digest = line.split()
        if not path.startswith("./.minio.sys/"):
            told[path] = " ".join([mode, user, group, size, mtime, *digest])
        elif "/tmp/" not in path:
            told[path] = " ".join([mode, user, group])
    return told


# --- a release of Helm owns the legacy store ------------------------------------------------------


@pytest.mark.minutes(3)
@needs_helm
def test_a_legacy_store_that_a_release_of_helm_owns(namespace, operator, tmp_path):
    """One take-over, and all that may happen to a site afterwards: upgrades, the dropped dependency, a rollback, a hand on the legacy store."""
    consumer = Consumer(namespace, tmp_path)
    fill(consumer.client())
    # Skupper and the like copy the selector when they are set up, and never look again.
    connector = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "connector"},
                 "spec": {"selector": namespace.get("service", NAME)["spec"]["selector"], "ports": [{"port": 80, "targetPort": "api"}]}}
    namespace.apply(connector)
    assert is_minio(client(namespace, "connector", 80))
    objects, claim, drive = shown(consumer.client()), consumer.claim(), owned(consumer.drive())

    namespace.apply(takes_over())
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    for name, port in ((NAME, 9000), ("connector", 80)):
        s3 = client(namespace, name, port)
        assert not is_minio(s3)
        assert_same(shown(s3), objects)
    # The legacy claim: the same object and volume, the same owners, modes, times and bytes on it.
    assert consumer.claim() == claim
    now = owned(consumer.drive())
    assert {path: now.get(path) for path in drive} == drive
    assert {path for path in now.keys() - drive.keys() if not path.startswith("./.minio.sys/")} == set()

    # Another version of the chart: its pods get other labels, ours stay as they are.
    pods = servers(namespace)
    consumer.upgrade(chartVersion="17.0.23")
    assert namespace.get("configmap", "application")["data"]["chart"] == "17.0.23"
    assert (replicas(namespace), record(namespace)["stage"]) == (0, "handedOver")
    s3 = consumer.client()
    assert_same(shown(s3), objects)
    s3.put_object(Bucket=BUCKET, Key="after", Body=b"the upgrade")

    late_writes_are_found(namespace, operator, consumer)
    objects = shown(s3)

    # The release drops the legacy store: the claim stays, and so does the store under its own name.
    consumer.upgrade(enabled=False)
    left = namespace("get", "deployment,service", "-o", "name").split()
    assert not {f"deployment.apps/{NAME}", f"service/{NAME}"} & set(left), left
    assert consumer.claim() == claim
    assert_same(shown(client(namespace)), objects)

    # And brings it back: Helm starts it with one replica and a drive of long ago.
    consumer.rollback(2)
    namespace.until("it is stopped", lambda: replicas(namespace) == 0)
    namespace.wait("Migrated=False/Diverged")
    assert consumer.claim() == claim
    s3 = consumer.client()
    assert not is_minio(s3)
    assert_same(shown(s3), objects)
    assert servers(namespace) == pods, "the store was never stopped"


def servers(namespace) -> list[str]:
    """UIDs of the pods of the new store; those of Jobs apart."""
    return [pod["metadata"]["uid"] for pod in namespace.pods("filestore.ryax.tech/name=files,!job-name")]


def late_writes_are_found(namespace, operator, legacy: Legacy):
    """While nobody looks somebody starts the legacy store, and clients reach it; what it took is found and brought over as the docs say."""
    operator.stop()
    legacy.scale(1)
    old = boto(Endpoint(f"{legacy.pods()[0]['status']['podIP']}:9000"))
    assert is_minio(old)
    old.put_object(Bucket=BUCKET, Key="late/new", Body=b"too late", Metadata={"who": "late"})
    old.put_object(Bucket=BUCKET, Key="iodata/report.csv", Body=b"changed too late")
    operator.start()
    namespace.wait("Migrated=False/Diverged", seconds=60)
    assert replicas(namespace) == 0
    note = next(note for reason, note in namespace.events() if reason == "WritersSeen")
    assert "kubectl" in note, note
    said = condition(namespace, "Migrated")["message"]
    assert "kubectl" in said and "docs/cutover.md" in said, said
    namespace.until("the legacy pods go", lambda: not legacy.pods())
    s3 = legacy.client()
    assert s3.get_object(Bucket=BUCKET, Key="after")["Body"].read() == b"the upgrade"

    told = late_job(namespace, "look", lambda args: args)
    listed = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert {(one["key"], one["did"]) for one in listed} == {("late/new", "add"), ("iodata/report.csv", "replace")}, told
    late_job(namespace, "bring", lambda args: args[:args.index("--dry-run")])
    found = s3.get_object(Bucket=BUCKET, Key="late/new")
    assert (found["Body"].read(), found["Metadata"]) == (b"too late", {"who": "late"})
    assert s3.get_object(Bucket=BUCKET, Key="iodata/report.csv")["Body"].read() == b"changed too late"
    namespace("annotate", f"deployment/{NAME}", "filestore.ryax.tech/writers-seen-")
    namespace.wait("Migrated=True/Completed")


def late_job(namespace, name: str, change) -> str:
    """Runs examples/late-writers.yaml with other arguments; what it prints."""
    job = yaml.safe_load((REPO / "examples/late-writers.yaml").read_text())
    job["metadata"]["name"] = name
    container = job["spec"]["template"]["spec"]["containers"][0]
    container |= {"image": IMAGE, "args": change(container["args"])}
    namespace.apply(job)
    namespace("wait", f"job/{name}", "--for=condition=Complete", "--timeout=90s")
    return namespace("logs", f"job/{name}")


# --- what is in the way ---------------------------------------------------------------------------


@pytest.fixture
def volumes(namespace):
    """Makes claims on file systems of the node; all of it goes at the end."""
    made = []

    def claim(name: str, kind: str, options: str) -> str:
        path = f"/var/lib/{namespace.name}-{name}"
        on_node("mkdir", path)
        on_node("mount", "-t", kind, "-o", options, kind, path)
        made.append((f"{namespace.name}-{name}", path))
        node = json.loads(kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
        common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": made[-1][0]}, "spec": common | {
            "capacity": {"storage": "1Gi"}, "local": {"path": path}, "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}}
        kubectl("apply", "-f", "-", stdin=json.dumps(volume))
        namespace.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": common | {
            "volumeName": made[-1][0], "resources": {"requests": {"storage": "1Gi"}}}})
        return path

    yield claim
    for name, path in made:
        kubectl("delete", "pv", name, "--wait=false")
        on_node("umount", "--lazy", path)
        on_node("rmdir", path)


def broken(name: str, storage: dict | None = None, **source) -> dict:
    """One that would stop before it touches the legacy store, if it came so far."""
    source = source or {"service": NAME}
    manual = {} if "existingClaim" in source else {"cutover": "manual"}
    return filestore(name, credentials={"secretRef": {"name": SECRET}}, storage=storage or {"size": "1Gi"}, migration={"source": source, **manual})


def dead(namespace) -> list[dict]:
    """Another legacy store, whose pod does not start."""
    made = json.loads(json.dumps(objects(namespace.name)).replace(NAME, "dead").replace('"app.kubernetes.io/instance": "ryax"', '"app.kubernetes.io/instance": "dead"').replace("dead-secret", SECRET))
    made[-1]["spec"]["template"]["spec"]["containers"][0]["image"] = "localhost/minio:none"
    return made


def waiting(namespace, name: str, claim: dict | None = None, volume: dict | None = None) -> list[dict]:
    """One with another claim, or a volume that is none."""
    made = json.loads(json.dumps(dead(namespace)).replace('"dead"', f'"{name}"'))
    if claim:
        next(one for one in made if one["kind"] == "PersistentVolumeClaim")["spec"] = claim
    if volume:
        made[-1]["spec"]["template"]["spec"]["volumes"][-1] = volume
        made = [one for one in made if one["kind"] != "PersistentVolumeClaim"]
    return made


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def next_try(namespace, name: str) -> datetime | None:
    """When a failed attempt is made again without a correction, if that is not soon."""
    found = re.search(r"tried again at ([-0-9T:]+Z)", condition(namespace, "Migrated", name).get("message", ""))
    due = found and moment(found[1])
    return due if due and due > datetime.now(UTC) + timedelta(seconds=15) else None


def tells(namespace, name: str, reason: str) -> int:
    """How often an event was told of a Filestore."""
    events = [one for one in namespace.items("events.events.k8s.io") if (one["regarding"]["name"], one["reason"]) == (name, reason)]
    return sum((one.get("series") or {"count": 1})["count"] for one in events)


@pytest.mark.minutes(3)
def test_what_is_in_the_way_is_said_and_the_legacy_store_serves(namespace, operator, volumes):
    legacy = Legacy(namespace)
    fill(legacy.client())
    there, claim = shown(legacy.client()), legacy.claim()
    namespace.apply(
        *dead(namespace),
        secret("wrong", **{"root-user": "nobody", "root-password": "not-the-password"}),
        *waiting(namespace, "once", claim={"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}),
        *waiting(namespace, "scratch", volume={"name": "data", "emptyDir": {}}),
    )
    made = [
        broken("wrong-keys", service=NAME, credentials={"secretRef": {"name": "wrong"}}),
        broken("no-claim", {"existingClaim": "absent"}),
        broken("no-drive", existingClaim="absent"),
        broken("no-secret", service=NAME, credentials={"secretRef": {"name": "absent"}}),
        broken("down", service="dead"),
        broken("one-pod", service="once"),
        broken("no-volume", service="scratch"),
    ]
    expected = {"wrong-keys": ("Migrated=False/CredentialsRefused", "access key"), "no-claim": ("StorageReady=False/ClaimMissing", "absent"),
                "no-drive": ("Migrated=False/SourceMissing", "absent"), "no-secret": ("CredentialsReady=False/SecretMissing", "absent"), "down": ("Migrated=False/SourceUnreachable", "http://dead.|does not answer"),
                "one-pod": ("Migrated=False/SourceUnsupported", "ReadWriteOncePod: no pod reads it beside the legacy store; scale it to 0"), "no-volume": ("Migrated=False/SourceUnsupported", "an emptyDir, which goes with the pod")}
    if NODE:
        path = volumes("small", "tmpfs", "size=8m")
        volumes("plain", "ramfs", "mode=777")
        made += [broken("full", {"existingClaim": "small"}), broken("no-xattr", {"existingClaim": "plain", "metadata": "xattr"})]
        expected |= {"full": ("Migrated=False/ObjectsFailed", "space"), "no-xattr": ("Migrated=False/Refused", "attributes")}
    namespace.apply(*made)
    end = time.monotonic() + SAID_WITHIN
    for name, (wanted, words) in expected.items():
        namespace.wait(wanted, name, seconds=end - time.monotonic())
        told = condition(namespace, wanted.partition("=")[0], name)["message"]
        assert any(word in told for word in words.split("|")), (name, told)
        assert condition(namespace, "Ready", name)["status"] == "False", name

    # Whoever looks between two attempts sees the reason as well.
    due = namespace.until("the next attempt is far off", lambda: next_try(namespace, "wrong-keys"), 120)
    assert tells(namespace, "wrong-keys", "CredentialsRefused") == 1, "it did not change from one attempt to the next"
    # Once it is out of the way, they go on by themselves; and at once where the operator can see it.
    namespace.apply(secret("wrong", **KEYS))
    corrected = namespace.until("the next attempt", lambda: next((job for job in namespace.items("jobs", "-l", "filestore.ryax.tech/name=wrong-keys") if "filestore.ryax.tech/after" in job["metadata"]["annotations"]), None), 60)
    assert moment(corrected["metadata"]["creationTimestamp"]) < due
    assert corrected["metadata"]["annotations"]["filestore.ryax.tech/failures"] == "0"
    ready = ["wrong-keys"]
    if NODE:
        on_node("mount", "-o", "remount,size=200m", path)
        ready.append("full")
    for name in ready:
        namespace.wait("Migrated=False/AwaitingApproval", name, seconds=120)

    assert (replicas(namespace), record(namespace)) == (1, {})
    assert_same(shown(legacy.client()), there)
    assert legacy.claim() == claim


# --- the Filestore goes in the middle -------------------------------------------------------------


@pytest.mark.minutes(2)
def test_a_filestore_that_is_deleted_mid_freeze_leaves_the_legacy_store_serving(namespace, operator):
    """Once while the operator looks, once while it is away."""
    legacy = Legacy(namespace)
    s3 = legacy.client()
    s3.create_bucket(Bucket=BUCKET)
    for number in range(20):
        s3.put_object(Bucket=BUCKET, Key=f"kept/{number}", Body=f"{number}".encode() * 1000, Metadata={"number": str(number)})
    claim = legacy.claim()
    for away in (False, True):
        there = snapshot(legacy.client())
        # A pod that cannot go yet holds the freeze where it is.
        pod = legacy.pods()[0]["metadata"]["name"]
        namespace("patch", "pod", pod, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": ["example.com/held"]}}))
        namespace.apply(takes_over())
        namespace.until("the freeze begins", lambda: record(namespace).get("stage") == "frozen", 120)
        assert replicas(namespace) == 0
        if away:
            operator.stop()
        namespace("delete", "filestore", "files")
        if away:
            operator.start()
        namespace.until("the legacy store is started", lambda: replicas(namespace) == 1, 60)
        assert record(namespace) == {}
        assert any(reason == "LegacyStarted" and "was deleted" in note for reason, note in namespace.events())
        namespace("patch", "pod", pod, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": None}}))
        namespace("rollout", "status", f"deployment/{NAME}", "--timeout=90s")
        s3 = legacy.client()
        assert is_minio(s3)
        assert_same(snapshot(s3), there)
        s3.put_object(Bucket=BUCKET, Key="after", Body=f"it serves, {away}".encode())
        namespace.until("nothing of it is left", lambda: not namespace.pods("filestore.ryax.tech/name=files") and "files-" not in namespace("get", "jobs", "-o", "name"), 60)
    assert legacy.claim() == claim
    assert "persistentvolumeclaim/files" in namespace("get", "pvc", "-o", "name").split(), "what was copied stays"

"""A MinIO that runs, laid out as Bitnami's chart does, is replaced behind its own Service while clients write."""

import hashlib
import json
import threading
import time
import uuid

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from harness.cluster import filestore, needs_cluster, needs_minio
from harness.legacy import NAME, SECRET, Legacy
from harness.s3 import snapshot
from test_takeover import assert_same, fill

pytestmark = [needs_cluster, needs_minio]

BUCKET = "ryax-filestore"
RECORD = "filestore.ryax.tech/take-over"


def takes_over(**migration) -> dict:
    return filestore(credentials={"secretRef": {"name": SECRET}}, migration={"id": "first", **migration})


@pytest.fixture
def legacy(namespace) -> Legacy:
    found = Legacy(namespace)
    fill(found.client())
    return found


class Writers:
    """Clients that write new objects and change old ones through the old Service until they are stopped; what was acknowledged is kept."""

    def __init__(self, legacy: Legacy, count: int = 3):
        self.legacy, self.acknowledged, self.unsure, self.failed = legacy, {}, set(), 0
        self.stopping, self.lock = threading.Event(), threading.Lock()
        self.threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def _write(self, number: int):
        client = self.legacy.client(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10)
        turn = 0
        while not self.stopping.is_set():
            turn += 1
            # Every third overwrites one of ten.
            key = f"live/{number}/{turn % 10}" if turn % 3 == 0 else f"live/{number}/new/{turn}"
            body = f"{key} {turn} {uuid.uuid4()}".encode() * (1 + turn % 50)
            with self.lock:
                self.unsure.add(key)
            try:
                client.put_object(Bucket=BUCKET, Key=key, Body=body, ContentType="text/x-live", Metadata={"turn": str(turn)})
            except (BotoCoreError, ClientError):
                self.failed += 1
                time.sleep(0.05)
                continue
            with self.lock:
                self.acknowledged[key] = (hashlib.sha256(body).hexdigest(), str(turn))
                self.unsure.discard(key)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def check(self, client):
        """Every acknowledged object is there as it was written; of one whose last write was cut off either may be there."""
        assert self.acknowledged
        for key, (digest, turn) in self.acknowledged.items():
            found = client.get_object(Bucket=BUCKET, Key=key)
            told = (hashlib.sha256(found["Body"].read()).hexdigest(), found["Metadata"]["turn"], found["ContentType"])
            if key not in self.unsure:
                assert told == (digest, turn, "text/x-live"), key


@pytest.fixture
def writers(legacy):
    made = Writers(legacy)
    yield made
    made.stop()


def shown(client) -> dict:
    """All objects but the one that MinIO holds and does not list."""
    found = snapshot(client)
    found[BUCKET].pop("shadow/p/child", None)
    return found


def same_but_for_the_date(now: dict, before: dict) -> None:
    """MinIO dates what is written to it by its own clock: of `after`, that was."""
    for told in (now, before):
        told[BUCKET]["after"].pop("last_modified")
    assert_same(now, before)


def replicas(namespace) -> int:
    return namespace.get("deployment", NAME)["spec"]["replicas"]


def record(namespace) -> dict:
    annotations = namespace.get("deployment", NAME)["metadata"].get("annotations", {})
    return json.loads(annotations.get(RECORD, "{}"))


@pytest.mark.minutes(3)
def test_clients_write_until_the_freeze_and_go_on_after_it(namespace, operator, legacy, writers):
    claim, service = legacy.claim(), namespace.get("service", NAME)
    fixed = snapshot(legacy.client())
    namespace.until("the clients are at work", lambda: len(writers.acknowledged) > 50)
    namespace.apply(takes_over())
    namespace.wait("Migrated=True/Completed", seconds=300)
    found = namespace.wait("Ready=True/Serving")
    at = len(writers.acknowledged)
    namespace.until("the clients go on at the new store", lambda: len(writers.acknowledged) > at + 20)
    writers.stop()

    client = legacy.client()
    assert "MinIO" not in client.list_buckets()["ResponseMetadata"]["HTTPHeaders"].get("server", "")
    writers.check(client)
    now = snapshot(client)
    for bucket, objects in fixed.items():
        old = {key: told for key, told in objects.items() if not key.startswith("live/")}
        assert_same({bucket: {key: now[bucket].get(key) for key in old}}, {bucket: old})

    # Nobody touched what belongs to the chart, but for the replicas.
    assert namespace.get("service", NAME)["spec"] == service["spec"]
    assert legacy.claim() == claim
    assert (replicas(namespace), record(namespace)["stage"]) == (0, "handedOver")
    freeze = found["status"]["migration"]["freeze"]
    print(f"freeze: {json.dumps(freeze)}, {writers.failed} writes failed, {len(writers.acknowledged)} acknowledged")
    assert set(freeze) == {"startedAt", "stopSeconds", "finalSeconds", "startSeconds", "totalSeconds"}
    namespace.until("nothing is left to do", lambda: operator.quiet())

    # One who starts it again is named, and it does not come back.
    namespace("scale", f"deployment/{NAME}", "--replicas=1")
    namespace.until("it is stopped", lambda: replicas(namespace) == 0)
    namespace.wait("Migrated=False/Diverged")
    assert any(reason == "WritersSeen" and "kubectl" in note for reason, note in namespace.events())
    assert "MinIO" not in client.list_buckets()["ResponseMetadata"]["HTTPHeaders"].get("server", "")


@pytest.mark.minutes(3)
def test_an_operator_killed_at_each_stage_goes_on(namespace, operator, legacy, writers):
    """Once per stage: the next operator acts when the lease of the killed one is over, half a minute later."""
    namespace.apply(takes_over())
    seen, end = set(), time.monotonic() + 540
    while True:
        found = namespace.get("filestore", "files").get("status", {})
        told = next((one for one in found.get("conditions", []) if one["type"] == "Migrated"), {"reason": "", "status": ""})
        if told["status"] == "True":
            break
        stage = (told["reason"], record(namespace).get("stage")) if told["reason"] else None
        if stage and stage not in seen:
            seen.add(stage)
            operator.kill()
            operator.start()
        assert time.monotonic() < end, found
        time.sleep(0.05)
    namespace.wait("Ready=True/Serving")
    writers.stop()
    writers.check(legacy.client())
    assert {reason for reason, *_ in seen} >= {"Precopying", "Preparing"}, seen


@pytest.mark.minutes(1)
def test_a_manual_cut_over_waits(namespace, operator, legacy):
    size = sum(one["Size"] for one in legacy.client().list_objects_v2(Bucket=BUCKET)["Contents"])
    namespace.apply(takes_over(cutover="manual", bandwidth=str(size // 15)))

    def percent() -> int:
        return namespace.get("filestore", "files").get("status", {}).get("migration", {}).get("copiedPercent", 0)

    namespace.until("the first round tells how far it is", lambda: 0 < percent() < 100, 90)
    found = namespace.wait("Migrated=False/AwaitingApproval", seconds=180)
    assert (replicas(namespace), found["status"]["migration"]["copiedPercent"]) == (1, 100)
    plan = found["status"]["migration"]["plan"]
    assert plan["wayBack"] is True
    objects = shown(legacy.client())
    namespace("patch", "filestore", "files", "--type=merge", "-p", json.dumps({"spec": {"migration": {"approve": plan["hash"]}}}))
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    assert_same(shown(legacy.client()), objects)

    # The Filestore goes and comes again: the same claim, nothing is copied again, the legacy store stays where it is.
    legacy.client().put_object(Bucket=BUCKET, Key="after", Body=b"the move")
    objects, claim = shown(legacy.client()), namespace.get("pvc", "files")["metadata"]["uid"]
    namespace("delete", "filestore", "files")
    namespace.until("all but the data goes", lambda: not namespace.items("pods", "-l", "filestore.ryax.tech/name=files") and not namespace.items("jobs"), 60)
    namespace.apply(takes_over(cutover="manual"))
    namespace.wait("Migrated=True/Completed")
    namespace.wait("Ready=True/Serving")
    assert_same(shown(legacy.client()), objects)
    assert (namespace.items("jobs"), replicas(namespace), namespace.get("pvc", "files")["metadata"]["uid"]) == ([], 0, claim)


@pytest.mark.minutes(2)
def test_back_and_over_again(namespace, operator, legacy):
    namespace.apply(takes_over())
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    client = legacy.client()
    client.put_object(Bucket=BUCKET, Key="after", Body=b"the move")
    client.delete_object(Bucket=BUCKET, Key="executions-data/1")
    objects = shown(client)

    namespace.apply(takes_over(rollback={"requestID": "first"}))
    namespace.wait("Migrated=False/RolledBack", seconds=180)
    namespace("rollout", "status", f"deployment/{NAME}", "--timeout=90s")
    same_but_for_the_date(shown(legacy.client()), objects)
    assert "MinIO" in legacy.client().list_buckets()["ResponseMetadata"]["HTTPHeaders"]["server"]
    legacy.client().put_object(Bucket=BUCKET, Key="back", Body=b"on the old one")
    objects = shown(legacy.client())

    namespace.apply(takes_over() | {"spec": takes_over()["spec"] | {"migration": {"id": "second"}}})
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    # The volume still has the object as it was first written.
    same_but_for_the_date(shown(legacy.client()), objects)

"""What bounds a take-over of a MinIO in the cluster: which buckets, how fast, how long, how many deletions, how many workers."""

import json

import pytest

from harness.cluster import needs_cluster, needs_minio
from harness.s3 import pattern, snapshot
from test_cluster_cutover import BUCKET, legacy, record, replicas, shown, takes_over  # noqa: F401 - a fixture
from test_takeover import assert_same

pytestmark = [needs_cluster, needs_minio, pytest.mark.minutes(1)]


def ended(namespace, job: str) -> list[tuple[int, dict]]:
    """Exit code and summary of each pod of a Job."""
    found = []
    for pod in namespace.items("pods", "-l", f"batch.kubernetes.io/job-name={job}"):
        told = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        found.append((told["exitCode"], json.loads(told["message"])))
    return found


def arguments(namespace, job: str) -> dict[str, str]:
    args = namespace.get("job", job)["spec"]["template"]["spec"]["containers"][0]["args"]
    return {flag: value for flag, value in zip(args, args[1:]) if flag.startswith("--")}


def test_a_round_that_is_out_of_time_goes_on(namespace, operator, legacy):
    client = legacy.client()
    client.create_bucket(Bucket="left-out")
    client.put_object(Bucket="left-out", Key="one", Body=b"stays behind")
    # At this rate it takes longer than a round may last.
    size = 4 << 20
    client.put_object(Bucket=BUCKET, Key="large", Body=pattern(size, "large"))
    renamed = [{"name": BUCKET, "target": "renamed"}]
    namespace.apply(takes_over(buckets=renamed, bandwidth="100k", deadline="4s"))
    found = namespace.wait("Migrated=False/DeadlinePassed", seconds=120)
    message = next(one["message"] for one in found["status"]["conditions"] if one["type"] == "Migrated")
    assert "the deadline of 4 s is over" in message and "migration.deadline" in message, message
    told = arguments(namespace, "files-copy-1")
    assert (told["--bandwidth"], told["--deadline"], told["--bucket"]) == ("100k", "4s", f"{BUCKET}=renamed")
    [(code, summary)] = ended(namespace, "files-copy-1")
    assert (code, summary["ending"]) == (4, "deadline") and summary["copiedBytes"] < size
    assert replicas(namespace) == 1
    assert found["status"]["phase"] == "Migrating", "nobody has to do anything"
    assert any(reason == "DeadlinePassed" for reason, _ in namespace.events())

    expected = shown(client)[BUCKET]
    namespace.apply(takes_over(buckets=renamed))
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    found = snapshot(client)
    found["renamed"].pop("shadow/p/child", None)
    assert_same(found, {"renamed": expected})


def test_more_deletions_than_allowed_stop_it_before_the_store_stops(namespace, operator, legacy):
    namespace.apply(takes_over(cutover="manual", maxDelete=1))
    found = namespace.wait("Migrated=False/AwaitingApproval", seconds=180)
    plan = found["status"]["migration"]["plan"]["hash"]
    client = legacy.client()
    gone = ["executions-data/1", "iodata/gone"]
    client.put_object(Bucket=BUCKET, Key=gone[1], Body=b"never copied")
    for key in gone:
        client.delete_object(Bucket=BUCKET, Key=key)
    # One of them was never here: as many as allowed. One more is too many.
    second = next(key for key in shown(client)[BUCKET] if key.startswith("executions-data/"))
    client.delete_object(Bucket=BUCKET, Key=second)
    expected = shown(client)

    namespace.apply(takes_over(cutover="manual", maxDelete=1, approve=plan))
    found = namespace.wait("Migrated=False/CutoverFailed", seconds=120)
    message = next(one["message"] for one in found["status"]["conditions"] if one["type"] == "Migrated")
    assert "2 objects would go, more than --max-delete 1 allows" in message and "that is migration.maxDelete" in message, message
    assert "the legacy store serves" in message
    assert (replicas(namespace), record(namespace)) == (1, {})
    assert "MinIO" in client.list_buckets()["ResponseMetadata"]["HTTPHeaders"]["server"]
    assert "LegacyStopped" not in [reason for reason, _ in namespace.events()]
    [(code, summary)] = ended(namespace, "files-final-1")
    assert (code, summary["outcomes"]["deleted"]) == (5, 0)

    namespace.apply(takes_over(cutover="manual", maxDelete=2, approve=plan))
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    assert_same(shown(client), expected)


def test_several_workers_share_the_rounds(namespace, operator, legacy):
    client = legacy.client()
    for number in range(90):
        client.put_object(Bucket=BUCKET, Key=f"shared/{number:02}", Body=pattern(20_000, str(number)))
    expected = shown(client)
    count = sum(map(len, expected.values()))
    pages = client.get_paginator("list_objects_v2").paginate
    size = sum(one["Size"] for bucket in expected for page in pages(Bucket=bucket) for one in page.get("Contents", []))
    # Slow enough to be looked at, whatever there is.
    namespace.apply(takes_over(shards=3, bandwidth=str(size // 15), cutover="manual"))

    def workers() -> dict[str, dict]:
        pods = namespace.pods("batch.kubernetes.io/job-name=files-copy-1")
        return {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: pod for pod in pods}

    def percent() -> int:
        return namespace.get("filestore", "files").get("status", {}).get("migration", {}).get("copiedPercent", 0)

    namespace.until("all of them tell how far they are", lambda: 0 < percent() < 100, 90)
    before = workers()
    assert set(before) == {"0", "1", "2"}
    assert len({pod["spec"]["nodeName"] for pod in before.values()}) == 1
    # One that goes is started again alone.
    namespace("delete", "pod", before["1"]["metadata"]["name"])
    found = namespace.wait("Migrated=False/AwaitingApproval", seconds=240)
    assert found["status"]["migration"]["copiedPercent"] == 100
    after = workers()
    same = {index for index in before if before[index]["metadata"]["uid"] == after[index]["metadata"]["uid"]}
    assert same == {"0", "2"}
    job = namespace.get("job", "files-copy-1")
    assert (job["status"]["succeeded"], job["status"]["completedIndexes"]) == (3, "0-2")
    told = arguments(namespace, "files-copy-1")
    assert (told["--shard"], told["--bandwidth"]) == ("$(JOB_COMPLETION_INDEX)/3", str(size // 15 // 3))
    ends = ended(namespace, "files-copy-1")
    assert [code for code, _ in ends] == [0, 0, 0]
    shares = [summary["outcomes"]["copied"] + summary["outcomes"]["skipped"] for _, summary in ends]
    assert sum(shares) == count and min(shares) > 0, shares
    assert "--shard" not in arguments(namespace, "files-gate-1")

    namespace.apply(takes_over(shards=3, cutover="manual", approve=found["status"]["migration"]["plan"]["hash"]))
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    assert "--shard" not in arguments(namespace, "files-final-1")
    assert_same(shown(client), expected)

"""After the hand-over: both stores changed, and the way back to the old one."""

import json
import subprocess
import threading
from pathlib import Path

import pytest

from harness.cli import filestore, marker, migrate, migrate_command, target_of
from harness.s3 import boto, describe, multipart_etag, pattern, put_multipart, snapshot
from test_plan import aged
from test_takeover import assert_same

MIB = 1 << 20


def put(client, key: str, body: bytes | str, bucket: str = "data", **extra) -> None:
    client.put_object(Bucket=bucket, Key=key, Body=body.encode() if isinstance(body, str) else body, **extra)


def bodies(client, bucket: str = "data") -> dict[str, str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {e["Key"]: client.get_object(Bucket=bucket, Key=e["Key"])["Body"].read().decode() for page in pages for e in page.get("Contents", [])}


def run_dir(state: Path) -> Path:
    return state / "runs" / json.loads((state / "migration.json").read_text())["runId"]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def status(target, *arguments: str) -> dict:
    goal, environment = target_of(target)
    done = filestore("migrate", "status", "--to", goal, "--json", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without_times(objects: dict) -> dict:
    """A foreign store dates what it is given itself."""
    return {bucket: {key: {name: value for name, value in told.items() if name != "last_modified"} for key, told in of.items()} for bucket, of in objects.items()}


def later(client, bucket: str, key: str, than) -> None:
    """Writes until the store's clock shows a later second than `than`."""
    while True:
        put(client, key, "newer", bucket)
        if client.head_object(Bucket=bucket, Key=key)["LastModified"] > than:
            return


class Parted:
    """A MinIO that was taken over and still has a client, beside the gateway and its clients."""

    def __init__(self, fleet, over_s3: bool):
        self.fleet, self.over_s3 = fleet, over_s3
        self.minio = fleet.minio()
        self.legacy = boto(self.minio)
        self.legacy.create_bucket(Bucket="data")
        for key in ("untouched", "legacy-new", "legacy-newer", "served-newer", "legacy-gone", "legacy-gone-served-new", "served-gone-legacy-new", "both-gone", "served-new", "same"):
            put(self.legacy, key, "old")
        self.volume = fleet.directory("volume")
        migrate("run", self.minio, self.volume)
        self.state = self.volume / ".filestore"
        self.gateway = fleet.gateway(self.volume)
        self.served = boto(self.gateway)
        self.part()
        if not over_s3:
            self.gateway.stop()

    def part(self):
        for key in ("served-new", "legacy-newer", "legacy-gone-served-new", "both-added"):
            put(self.served, key, "served")
        for key in ("served-gone-legacy-new", "both-gone"):
            self.served.delete_object(Bucket="data", Key=key)
        for client in (self.legacy, self.served):
            put(client, "same", "the same")
        for key in ("legacy-new", "legacy-added", "served-newer", "served-gone-legacy-new"):
            put(self.legacy, key, "legacy")
        for key in ("legacy-gone", "legacy-gone-served-new", "both-gone"):
            self.legacy.delete_object(Bucket="data", Key=key)
        later(self.legacy, "data", "legacy-newer", self.served.head_object(Bucket="data", Key="legacy-newer")["LastModified"])
        later(self.served, "data", "served-newer", self.legacy.head_object(Bucket="data", Key="served-newer")["LastModified"])
        # Both in one second is possible: the served store wins then, as it does when it is newer.
        put(self.legacy, "both-added", "legacy")
        later(self.served, "data", "both-added", self.legacy.head_object(Bucket="data", Key="both-added")["LastModified"])

    def merge(self, *arguments: str, code: int) -> subprocess.CompletedProcess:
        if self.over_s3:
            return migrate("merge", self.minio, self.gateway, "--state-dir", str(self.state), *arguments, code=code)
        return migrate("merge", self.minio, self.volume, *arguments, code=code)

    def held(self) -> dict[str, str]:
        if not self.over_s3:
            self.gateway.start()
        found = bodies(self.served)
        if not self.over_s3:
            self.gateway.stop()
        return found


@pytest.mark.parametrize("over_s3", [False, True], ids=["volume", "gateway"])
def test_a_divergence_is_listed_and_merged_on_request(fleet, over_s3):
    parted = Parted(fleet, over_s3)
    before = parted.held()
    # Nobody decided yet: what is one-sided is merged, the rest is listed.
    trial = parted.merge("--dry-run", "--report", str(fleet.root / "trial.jsonl"), "--prefer", "newest", "--deletes", code=0)
    assert "would add 2, replace 2, delete 1" in trial.stdout, trial.stdout
    assert {(line["key"], line["did"]) for line in lines(fleet.root / "trial.jsonl")} >= {("legacy-gone", "delete"), ("legacy-added", "add"), ("legacy-newer", "replace")}
    assert parted.held() == before
    piped = parted.merge("--dry-run", "--report", "/dev/stdout", "--prefer", "newest", "--deletes", code=0)
    assert {json.loads(line)["did"] for line in piped.stdout.splitlines() if line.startswith("{")} >= {"add", "replace", "delete"}
    # What nobody would have decided is in the report of a trial, too.
    parted.merge("--dry-run", "--report", str(fleet.root / "trial.jsonl"), code=8)
    left = {line["key"]: line["how"] for line in lines(fleet.root / "trial.jsonl") if line["did"] == "undecided"}
    assert left == {"legacy-gone": "deletedOnSource"} | dict.fromkeys(
        ("both-added", "legacy-gone-served-new", "legacy-newer", "served-gone-legacy-new", "served-newer"), "changedOnBoth")

    told = parted.merge(code=8)
    assert "UNDECIDED: 1 deleted on one side, 5 changed on both" in told.stdout, told.stdout
    merged = before | {"legacy-new": "legacy", "legacy-added": "legacy"}
    assert parted.held() == merged
    now = status(parted.volume)
    assert (now["marker"]["diverged"], now["divergence"]["conflicts"], now["divergence"]["deleted"]) == (True, 5, 1)
    undecided = {line["key"]: line["how"] for line in lines(Path(now["divergence"]["report"]))}
    assert undecided == {"legacy-gone": "deletedOnSource"} | dict.fromkeys(
        ("both-added", "legacy-gone-served-new", "legacy-newer", "served-gone-legacy-new", "served-newer"), "changedOnBoth")

    parted.merge("--prefer", "newest", code=3)
    merged |= {"legacy-newer": "newer", "served-gone-legacy-new": "legacy"}
    assert parted.held() == merged

    done = parted.merge("--prefer", "newest", "--deletes", code=0)
    del merged["legacy-gone"]
    assert parted.held() == merged
    assert "deleted 1" in done.stdout, done.stdout
    now = status(parted.volume)
    assert now["marker"]["diverged"] is False and "divergence" not in now

    # What lost is on record, and what no store holds any more is kept.
    changes = lines(Path(now["changes"]))
    assert {(line["key"], line["did"]) for line in changes} == {
        ("legacy-new", "replace"), ("legacy-added", "add"), ("legacy-newer", "replace"), ("served-gone-legacy-new", "add"),
        ("served-newer", "keep"), ("both-added", "keep"), ("legacy-gone-served-new", "keep"), ("legacy-gone", "delete")}
    lost, = [line["saved"] for line in changes if "saved" in line]
    assert (run_dir(parted.state) / lost).read_bytes() == b"served"
    assert json.loads((run_dir(parted.state) / f"{lost}.json").read_text())["key"] == "legacy-newer"

    # The same again is nothing, for `run` as well.
    again = parted.merge("--prefer", "newest", "--deletes", code=0)
    assert "added 0, replaced 0, deleted 0" in again.stdout, again.stdout
    if not over_s3:
        told = migrate("run", parted.minio, parted.volume)
        assert "0 added, 0 updated" in told.stdout and "DIVERGED" not in told.stdout, told.stdout
    # A later change of a key that was decided for the served store is a conflict again.
    put(parted.legacy, "served-newer", "legacy again")
    assert "1 changed on both: data/served-newer" in parted.merge(code=8).stdout


def test_preferring_one_side_decides_everything(fleet):
    parted = Parted(fleet, True)
    before = parted.held()
    parted.merge("--prefer", "target", "--deletes=keep", code=0)
    assert parted.held() == before | {"legacy-new": "legacy", "legacy-added": "legacy"}
    assert marker(parted.volume)["diverged"] is False
    # A decision is final until something changes.
    parted.merge("--prefer", "source", "--deletes", code=0)
    assert parted.held() == before | {"legacy-new": "legacy", "legacy-added": "legacy"}


def test_preferring_the_source_takes_its_deletions_too(fleet):
    parted = Parted(fleet, True)
    parted.merge("--prefer", "source", "--deletes", code=0)
    legacy = bodies(parted.legacy)
    assert parted.held() == legacy | {"served-new": "served"}
    saved = {line["key"] for line in lines(run_dir(parted.state) / "changes.jsonl") if "saved" in line}
    assert saved == {"legacy-newer", "served-newer", "both-added", "legacy-gone-served-new"}


def test_a_client_that_writes_during_a_merge_loses_nothing(fleet):
    """Without --prefer no write of a client is ever overwritten, whenever it comes."""
    minio = fleet.minio()
    legacy = boto(minio)
    legacy.create_bucket(Bucket="data")
    keys = [f"k{i:03d}" for i in range(150)]
    for key in keys:
        put(legacy, key, "old")
    volume = fleet.directory("volume")
    migrate("run", minio, volume)
    gateway = fleet.gateway(volume)
    for key in keys:
        put(legacy, key, "legacy")
    served, wrote, stop = boto(gateway), [], threading.Event()

    def write():
        for key in reversed(keys):
            if stop.is_set():
                return
            put(served, key, "client")
            wrote.append(key)

    writer = threading.Thread(target=write)
    writer.start()
    done = migrate("merge", minio, gateway, "--state-dir", str(volume / ".filestore"), code=None)
    stop.set()
    writer.join()
    assert done.returncode in (0, 8), done.stderr
    found = bodies(served)
    assert {key: found[key] for key in wrote} == dict.fromkeys(wrote, "client")
    assert {found[key] for key in keys if key not in wrote} <= {"legacy"}


def write_on(client) -> None:
    """All that clients may do to a store."""
    # Of a copy onto itself a listing shows nothing but the new date, which counts in whole seconds.
    later(client, "data", "new", client.head_object(Bucket="data", Key="described")["LastModified"])
    client.create_bucket(Bucket="new-bucket")
    put(client, "new", "new", ContentType="text/x-new", CacheControl="no-cache", Metadata={"origin": "gateway"}, Tagging="a=b%20c&d=")
    put(client, "deep/er", "in a new bucket", "new-bucket")
    put(client, "replaced", "replaced", Metadata={"version": "2"})
    client.delete_object(Bucket="data", Key="deleted")
    put_multipart(client, "data", "multi-new", pattern(11 * MIB), 5 * MIB, ContentType="application/zip", Metadata={"kind": "multi"}, Tagging="m=1")
    client.put_object_tagging(Bucket="data", Key="retagged", Tagging={"TagSet": [{"Key": "stage", "Value": "prod"}]})
    client.copy_object(Bucket="data", Key="described", CopySource="data/described", MetadataDirective="REPLACE", ContentType="text/new", Metadata={"new": "metadata"})
    put(client, "hidden/child", "hidden")


class Moved:
    """A MinIO that was taken over from its drive, with clients on the gateway since."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.minio = fleet.minio()
        self.legacy = boto(self.minio)
        for bucket in ("data", "emptied"):
            self.legacy.create_bucket(Bucket=bucket)
        put(self.legacy, "only", "only", "emptied")
        for key in ("kept", "replaced", "deleted", "conflict", "legacy-only"):
            put(self.legacy, key, "old", Metadata={"version": "1"})
        put(self.legacy, "retagged", "tags change", Tagging="stage=test")
        put(self.legacy, "described", "metadata changes", ContentType="text/old", Metadata={"old": "metadata"})
        put(self.legacy, "hidden", "hides")
        put_multipart(self.legacy, "data", "multi", pattern(11 * MIB, "m"), 5 * MIB)
        self.minio.stop()
        self.volume = fleet.directory("volume")
        migrate("run", aged(self.minio.directory), self.volume, "--id", "first")
        self.gateway = fleet.gateway(self.volume)
        self.served = boto(self.gateway)
        write_on(self.served)
        self.served.delete_object(Bucket="emptied", Key="only")


def test_back_to_the_old_store_and_over_again(fleet):
    moved = Moved(fleet)
    volume, minio, gateway, served, legacy = moved.volume, moved.minio, moved.gateway, moved.served, moved.legacy
    expected = without_times(snapshot(served))
    minio.start()
    old = snapshot(legacy)
    trial = migrate("reverse", f"volume:{volume}", minio, "--dry-run")
    assert "would add 4, replace 3, delete 2" in trial.stdout, trial.stdout
    assert_same(snapshot(legacy), old)
    # While the gateway serves: most of it, the marker stays.
    migrate("reverse", f"volume:{volume}", minio)
    assert marker(volume)["state"] == "cutover"
    refused = migrate("reverse", f"volume:{volume}", minio, "--complete", code=5)
    assert "stop the gateway" in refused.stderr, refused.stderr
    put(served, "last", "written in the last minute")
    put(served, "replaced", "again")
    expected = without_times(snapshot(served))
    gateway.stop()

    done = migrate("reverse", f"volume:{volume}", minio, "--complete")
    assert "added 1, replaced 1, deleted 0" in done.stdout and "rolled back" in done.stdout, done.stdout
    found = without_times(snapshot(legacy))
    # MinIO hides an object below another one from its listings; it has it.
    assert found["data"].pop("hidden/child", None) is None
    found["data"]["hidden/child"] = without_times({"data": {"hidden/child": describe(legacy, "data", "hidden/child")}})["data"]["hidden/child"]
    assert_same(found, expected)
    assert found["data"]["multi-new"]["etag"] == multipart_etag(pattern(11 * MIB), 5 * MIB)
    assert found["data"]["retagged"]["tags"] == {"stage": "prod"}
    assert legacy.head_object(Bucket="data", Key="multi-new", PartNumber=2)["ContentLength"] == 5 * MIB
    assert marker(volume)["state"] == "rolledBack"
    assert status(volume)["marker"]["state"] == "rolledBack"

    # Repeating it does nothing; what would start a second owner is refused.
    put(legacy, "kept", "legacy client", Metadata={"by": "legacy"})
    assert "nothing to do" in migrate("reverse", f"volume:{volume}", minio, "--complete").stdout
    for command in ("run", "copy", "final", "merge"):
        assert "rolled back" in migrate(command, minio, volume, code=5).stderr

    # Clients of both stores go on, and the store is taken over again.
    put(legacy, "from-legacy", "legacy client")
    legacy.delete_object(Bucket="data", Key="last")
    # A client that missed the move back has to speak to an engine that knows nothing of the marker.
    other = fleet.versitygw(volume / "s3")
    put(boto(other), "late", "a client that missed the move back")
    other.stop()
    assert "--id" in migrate("run", minio, volume, "--again", "--id", "first", code=5).stderr
    again = migrate("run", minio, volume, "--again", "--id", "second")
    assert "added 1, replaced 1, deleted 1" in again.stdout, again.stdout
    now = marker(volume)
    assert (now["state"], now["runId"], now["follows"], now["diverged"]) == ("cutover", "second", "first", False)
    gateway.start()
    after = snapshot(served)
    wanted = without_times(snapshot(legacy))
    wanted["data"]["hidden/child"] = found["data"]["hidden/child"]
    late = after["data"].pop("late")
    assert late["size"] == len("a client that missed the move back")
    assert_same(without_times(after), wanted)
    assert after["data"]["kept"]["metadata"] == {"by": "legacy"}
    gateway.stop()
    # And it is an ordinary hand-over from here on.
    told = migrate("run", minio, volume, "--again", "--id", "second")
    assert "0 added, 0 updated" in told.stdout, told.stdout


def test_an_old_store_that_moved_on_is_a_conflict(fleet):
    moved = Moved(fleet)
    moved.gateway.stop()
    moved.minio.start()
    volume, minio, legacy = moved.volume, moved.minio, moved.legacy
    put(legacy, "replaced", "by a late writer")
    put(legacy, "deleted", "by a late writer")
    put(legacy, "legacy-only", "by a late writer")
    told = migrate("reverse", f"volume:{volume}", minio, "--complete", code=8)
    assert "2 changed on both: data/deleted, data/replaced" in told.stdout, told.stdout
    assert marker(volume)["state"] == "rollingBack"
    refused = migrate("run", minio, volume, code=5)
    assert "reverse --complete" in refused.stderr, refused.stderr
    assert {key: bodies(legacy)[key] for key in ("replaced", "deleted", "new")} == {"replaced": "by a late writer", "deleted": "by a late writer", "new": "new"}

    done = migrate("reverse", f"volume:{volume}", minio, "--complete", "--prefer", "source")
    assert marker(volume)["state"] == "rolledBack", done.stdout
    found = bodies(legacy)
    assert found["replaced"] == "replaced" and "deleted" not in found
    assert found["legacy-only"] == "by a late writer", "only the old store changed it: kept"
    saved = {line["key"]: line["saved"] for line in lines(run_dir(volume / ".filestore") / "changes.jsonl") if "saved" in line}
    assert sorted(saved) == ["deleted", "replaced"]
    assert {(run_dir(volume / ".filestore") / path).read_bytes() for path in saved.values()} == {b"by a late writer"}


def test_back_over_s3_alone(fleet):
    """Neither the volume nor the drive is touched directly; the state lies where the take-over left it."""
    moved = Moved(fleet)
    volume, minio, gateway, served, legacy = moved.volume, moved.minio, moved.gateway, moved.served, moved.legacy
    minio.start()
    state = ["--state-dir", str(volume / ".filestore")]
    migrate("reverse", gateway, minio, *state)
    done = migrate("reverse", gateway, minio, *state, "--complete")
    # Listings do not tell of tags: every object is asked for them at the end.
    assert "added 0, replaced 1, deleted 0" in done.stdout, done.stdout
    expected, found = without_times(snapshot(served)), without_times(snapshot(legacy))
    del expected["data"]["hidden/child"]
    assert_same(found, expected)
    assert marker(volume)["state"] == "rolledBack"


def test_a_killed_reverse_resumes(fleet):
    minio = fleet.minio()
    legacy = boto(minio)
    legacy.create_bucket(Bucket="data")
    put(legacy, "first", "first")
    volume = fleet.directory("volume")
    migrate("run", minio, volume)
    gateway = fleet.gateway(volume)
    served = boto(gateway)
    for i in range(120):
        put(served, f"k{i:03d}", pattern(20_000, f"s{i}"))
    gateway.stop()
    command, environment = migrate_command("reverse", f"volume:{volume}", minio, "--complete", "--parallel", "1")
    running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while legacy.list_objects_v2(Bucket="data")["KeyCount"] < 20:
        assert running.poll() is None, "it was done before it could be killed"
    running.kill()
    running.wait()
    assert marker(volume)["state"] == "rollingBack"
    partly = legacy.list_objects_v2(Bucket="data")["KeyCount"]
    assert partly < 121
    dates = {e["Key"]: e["LastModified"] for e in legacy.list_objects_v2(Bucket="data")["Contents"]}
    migrate("reverse", f"volume:{volume}", minio, "--complete")
    assert marker(volume)["state"] == "rolledBack"
    entries = {e["Key"]: e["LastModified"] for e in legacy.list_objects_v2(Bucket="data")["Contents"]}
    assert len(entries) == 121
    assert {key: entries[key] for key in dates} == dates, "what was there is not written twice"
    back = fleet.unready_gateway(volume)
    assert bodies(legacy) == bodies(boto(back))


def test_what_reverse_and_merge_refuse(fleet):
    minio, other = fleet.minio(), fleet.minio(fleet.directory("other"))
    for server in (minio, other):
        boto(server).create_bucket(Bucket="data")
    put(boto(minio), "a", "a")
    volume, state = fleet.directory("volume"), fleet.directory("state")
    migrate("run", minio, volume, "--no-cutover")
    assert "not handed over" in migrate("merge", minio, volume, code=5).stderr
    assert "not handed over" in migrate("reverse", f"volume:{volume}", minio, code=5).stderr
    migrate("run", minio, volume)
    assert "not the store that was migrated" in migrate("reverse", f"volume:{volume}", other, code=5).stderr
    assert "not the store that was migrated" in migrate("merge", other, volume, code=5).stderr
    gateway = fleet.gateway(volume)
    assert "--state-dir" in migrate("merge", minio, gateway, code=2).stderr
    assert "no migration" in migrate("merge", minio, gateway, "--state-dir", str(state), code=5).stderr
    command, environment = migrate_command("reverse", f"volume:{volume}", minio)
    command[command.index("--to") + 1] = f"minio-drive:{minio.directory}"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "start that MinIO" in done.stderr, done.stderr

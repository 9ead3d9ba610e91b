"""`migrate roll-back`: the whole way back to the legacy store in one command, and over again under a new id."""

import json
import os
import subprocess
import time

import pytest
from botocore.exceptions import ClientError

from harness.cli import filestore, marker, migrate, migrate_command
from harness.s3 import boto, describe, pattern, put_multipart, signed_post, snapshot
from test_final_hold import Held
from test_reconcile import bodies, later, lines, put, run_dir, without_times, write_on
from test_takeover import assert_same

MIB = 1 << 20


class Taken:
    """A MinIO that was taken over as `first` and stopped, with clients on the gateway since."""

    def __init__(self, fleet, keys: int = 0):
        self.fleet, self.minio = fleet, fleet.minio()
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
        self.volume = fleet.directory("volume")
        migrate("copy", self.minio, self.volume, "--id", "first")
        migrate("final", self.minio, self.volume, "--id", "first", "--cutover")
        self.minio.stop()
        self.gateway = fleet.gateway(self.volume, "--require-marker", "first")
        self.served = boto(self.gateway)
        write_on(self.served)
        self.served.delete_object(Bucket="emptied", Key="only")
        for i in range(keys):
            put(self.served, f"k{i:03d}", pattern(20_000, f"s{i}"))

    @property
    def state(self) -> str:
        return marker(self.volume)["state"]

    def command(self, *arguments: str, name: str = "first", minio=None) -> tuple[list[str], dict]:
        return migrate_command("roll-back", f"volume:{self.volume}", minio or self.minio, "--id", name, *arguments)

    def start(self, *arguments: str, **how) -> subprocess.Popen:
        command, environment = self.command(*arguments, **how)
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)

    def back(self, *arguments: str, code: int = 0, **how) -> subprocess.CompletedProcess:
        command, environment = self.command(*arguments, **how)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        assert done.returncode == code, f"{done.returncode}, not {code}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done

    def abandon(self, code: int = 0) -> subprocess.CompletedProcess:
        done = filestore("migrate", "roll-back", "--from", f"volume:{self.volume}", "--id", "first", "--abandon")
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def expected(self) -> dict:
        return without_times(snapshot(self.served))

    def came_back(self) -> dict:
        """What the legacy store has; MinIO hides `hidden/child` beside `hidden` from its listings and has it."""
        found = without_times(snapshot(self.legacy))
        found["data"]["hidden/child"] = without_times({"data": {"hidden/child": describe(self.legacy, "data", "hidden/child")}})["data"]["hidden/child"]
        return found


def until(process: subprocess.Popen, done) -> None:
    while not done():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def test_back_in_one_command_and_over_again(fleet):
    taken = Taken(fleet)
    expected = taken.expected()
    assert "stop the gateway" in taken.back(code=5).stderr
    assert taken.state == "cutover"
    taken.gateway.stop()

    # As in a Job: the legacy store comes up beside it. The volume is marked first.
    summary = fleet.root / "summary.json"
    running = taken.start("--summary-file", str(summary))
    until(running, lambda: taken.state == "rollingBack")
    taken.minio.start()
    out, _ = running.communicate(timeout=120)
    assert running.returncode == 0 and "verified; rolled back" in out, out
    told = json.loads(summary.read_text())
    assert len(summary.read_bytes()) <= 4096
    assert (told["command"], told["ending"], told["marker"]["state"], told["marker"]["runId"]) == ("roll-back", "rolledBack", "rolledBack", "first")
    assert_same(taken.came_back(), expected)

    # It is over, for everybody.
    assert "nothing to do" in taken.back().stdout
    assert "new id" in taken.abandon(code=5).stderr
    for arguments in ((), ("--id", "first")):
        for command in ("copy", "final", "run"):
            assert "rolled back" in migrate(command, taken.minio, taken.volume, *arguments, code=5).stderr
    assert taken.state == "rolledBack"
    gateway = fleet.unready_gateway(taken.volume)
    assert gateway.readiness()[0] == 503
    with pytest.raises(ClientError) as refused:
        put(boto(gateway), "late", "late")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    gateway.stop()

    # Clients of both sides go on: of the volume through an engine that knows nothing of the marker.
    legacy = taken.legacy
    put(legacy, "kept", "legacy client", Metadata={"by": "legacy"})
    put(legacy, "from-legacy", "legacy client")
    legacy.delete_object(Bucket="data", Key="new")
    other = fleet.versitygw(taken.volume / "s3")
    put(boto(other), "late", "a client that missed the move back")
    put(boto(other), "described", "and changed something")
    other.stop()

    summary = fleet.root / "copy.json"
    migrate("copy", taken.minio, taken.volume, "--id", "second", "--summary-file", str(summary))
    told = json.loads(summary.read_text())
    assert (told["outcomes"]["copied"], told["differed"], told["onlyOnTarget"], told["marker"]["state"]) == (2, 2, 1, "copying")
    now = marker(taken.volume)
    assert (now["runId"], now["follows"], now["state"]) == ("second", "first", "copying")
    assert (taken.volume / "s3/data/new").exists(), "a round deletes nothing"
    assert "second" in migrate("copy", taken.minio, taken.volume, "--id", "third", code=5).stderr
    held = Held(fleet, taken.minio, taken.volume, name="second").wait()
    put(legacy, "while-held", "legacy client")
    legacy.delete_object(Bucket="data", Key="replaced")
    wanted = without_times(snapshot(legacy))
    held.say("go")
    told = held.end()
    assert (told["ending"], told["marker"]["state"], set(told["parts"])) == ("migrated", "verified", {"waitedSeconds", "finalSeconds", "verifySeconds", "markerSeconds"})
    gateway = fleet.unready_gateway(taken.volume, "--require-marker", "second")
    assert gateway.readiness()[0] == 503
    assert signed_post(gateway, "/.filestore/hand-over?id=second")[0] == 200
    assert gateway.readiness()[0] == 200
    served = boto(gateway)
    after = without_times(snapshot(served))
    assert after["data"].pop("late")["size"] == len("a client that missed the move back")
    assert after["data"].pop("described")["size"] == len("and changed something")
    assert after["data"].pop("hidden/child") == expected["data"]["hidden/child"]
    del wanted["data"]["described"]
    assert_same(after, wanted)

    # And back once more: what came last is there, and no id is used twice.
    put(served, "last", "last")
    gateway.stop()
    taken.back(name="second")
    assert bodies(legacy)["last"] == "last" and bodies(legacy)["late"] == "a client that missed the move back"
    assert "earlier run" in migrate("copy", taken.minio, taken.volume, "--id", "first", code=5).stderr
    assert taken.state == "rolledBack"


def test_killed_anywhere_it_goes_on(fleet):
    taken = Taken(fleet, keys=400)
    expected = taken.expected()
    taken.gateway.stop()
    running = taken.start()
    until(running, lambda: taken.state == "rollingBack")
    running.kill()  # before the legacy store is there
    running.communicate()
    taken.minio.start()
    # Their names alone: one that is being written is listed a moment before it can be read.
    count = lambda: taken.legacy.list_objects_v2(Bucket="data", Prefix="k")["KeyCount"]  # noqa: E731
    seen = 0
    for goal in (10, 40, 80, 110):
        running = taken.start("--parallel", "1", "--rate", "200")  # far from done when it is killed
        until(running, lambda: count() >= goal)  # noqa: B023
        running.kill()
        running.communicate()
        assert taken.state == "rollingBack"
        seen = count()
        assert goal <= seen
    dates = {e["Key"]: e["LastModified"] for e in taken.legacy.list_objects_v2(Bucket="data")["Contents"] if e["Key"][1:].isdigit()}
    for pause in (0.02, 0.05, 0.1, 0.2):
        running = taken.start()
        try:
            running.wait(pause)
        except subprocess.TimeoutExpired:
            pass
        running.kill()
        running.communicate()
        assert taken.state in ("rollingBack", "rolledBack")
    taken.back()
    assert taken.state == "rolledBack"
    assert_same(taken.came_back(), expected)
    now = {e["Key"]: e["LastModified"] for e in taken.legacy.list_objects_v2(Bucket="data")["Contents"]}
    assert {key: now[key] for key in dates} == dates, "what was there is not written twice"


def test_another_store_is_refused_and_the_way_back_can_be_given_up(fleet):
    taken = Taken(fleet)
    taken.gateway.stop()
    other = fleet.minio(fleet.directory("other"))
    boto(other).create_bucket(Bucket="data")
    refused = taken.back(minio=other, code=5)
    assert "not the store that was migrated" in refused.stderr, refused.stderr
    assert taken.state == "rollingBack"
    assert bodies(boto(other)) == {}, "nothing was written to it"
    gateway = fleet.unready_gateway(taken.volume, "--require-marker", "first")
    status, why = gateway.readiness()
    assert status == 503 and "--abandon" in why
    with pytest.raises(ClientError):
        put(boto(gateway), "refused", "refused")

    assert "given up" in taken.abandon().stdout
    assert taken.state == "cutover"
    assert "nothing to give up" in taken.abandon().stdout
    gateway.stop()
    gateway.start()
    assert gateway.readiness()[0] == 200
    put(boto(gateway), "after", "written after it was given up")
    expected = without_times(snapshot(boto(gateway)))
    gateway.stop()
    taken.minio.start()
    taken.back()
    assert_same(taken.came_back(), expected)


def test_given_up_half_way_nothing_is_lost(fleet):
    taken = Taken(fleet, keys=60)
    taken.gateway.stop()
    taken.minio.start()
    running = taken.start("--parallel", "1")
    until(running, lambda: "k010" in bodies(taken.legacy))
    running.kill()
    running.communicate()
    taken.abandon()
    taken.minio.stop()
    taken.gateway.start()
    put(taken.served, "k005", "changed since")
    for key in ("k006", "kept"):
        taken.served.delete_object(Bucket="data", Key=key)
    put(taken.served, "more", "more")
    expected = taken.expected()
    taken.gateway.stop()
    taken.minio.start()
    taken.back()
    assert_same(taken.came_back(), expected)


def test_conflicts_are_listed_and_decided(fleet):
    taken = Taken(fleet)
    taken.gateway.stop()
    taken.minio.start()
    for key in ("replaced", "deleted", "legacy-only"):
        put(taken.legacy, key, "by a late writer")
    summary = fleet.root / "summary.json"
    told = taken.back("--summary-file", str(summary), code=8)
    assert "2 changed on both: data/deleted, data/replaced" in told.stdout, told.stdout
    undecided = json.loads(summary.read_text())
    assert undecided["undecided"] == {"changedOnBoth": 2, "deletedOnOne": 0, "examples": ["data/deleted", "data/replaced"]}
    assert (undecided["exit"], undecided["ending"]) == (8, "incomplete")
    assert taken.state == "rollingBack"
    taken.back(code=8)
    taken.back("--prefer", "source")
    assert taken.state == "rolledBack"
    found = bodies_of(taken.legacy, "replaced", "deleted", "legacy-only")
    assert found == {"replaced": "replaced", "deleted": None, "legacy-only": "by a late writer"}
    saved = {line["key"] for line in lines(run_dir(taken.volume / ".filestore") / "changes.jsonl") if "saved" in line}
    assert saved == {"replaced", "deleted"}


def bodies_of(client, *keys: str) -> dict[str, str | None]:
    found = {}
    for key in keys:
        try:
            found[key] = client.get_object(Bucket="data", Key=key)["Body"].read().decode()
        except client.exceptions.NoSuchKey:
            found[key] = None
    return found


def test_conflicts_of_a_second_take_over(fleet):
    taken = Taken(fleet)
    taken.gateway.stop()
    taken.minio.start()
    taken.back()
    other = fleet.versitygw(taken.volume / "s3")
    put(boto(other), "conflict", "on the volume")
    taken.legacy.delete_object(Bucket="data", Key="kept")
    put(boto(other), "kept", "changed on the volume")
    other.stop()
    put(taken.legacy, "conflict", "on the legacy store")
    for command in ("copy", "final"):
        told = migrate(command, taken.minio, taken.volume, "--id", "second", code=8)
        assert "data/conflict" in told.stdout, told.stdout
        assert (marker(taken.volume)["state"], marker(taken.volume)["runId"]) == ("copying", "second")
    later(taken.legacy, "data", "conflict", taken.legacy.head_object(Bucket="data", Key="conflict")["LastModified"])
    migrate("final", taken.minio, taken.volume, "--id", "second", "--prefer", "newest", "--cutover")
    served = boto(fleet.gateway(taken.volume, "--require-marker", "second"))
    assert bodies_of(served, "conflict", "kept") == {"conflict": "newer", "kept": "changed on the volume"}
    saved = [line for line in lines(run_dir(taken.volume / ".filestore") / "changes.jsonl") if "saved" in line]
    assert {line["key"] for line in saved} == {"conflict"}


@pytest.mark.parametrize("mode", ["etag", "bytes"])
def test_a_second_take_over_reads_what_it_is_asked_to_read(fleet, mode):
    """A body that rotted on the volume shows in no listing; nothing is handed over with it."""
    taken = Taken(fleet)
    taken.gateway.stop()
    taken.minio.start()
    taken.back()
    file = taken.volume / "s3/data/multi"
    body = bytearray(file.read_bytes())
    body[6 * MIB] ^= 1
    about = file.stat()
    with file.open("r+b") as rotten:
        rotten.write(body)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    migrate("copy", taken.minio, taken.volume, "--id", "second")
    told = migrate("final", taken.minio, taken.volume, "--id", "second", "--verify", mode, "--cutover", code=3)
    assert "1 differ, 0 unreadable" in told.stdout and "data/multi" in told.stdout, told.stdout
    assert marker(taken.volume)["state"] == "copying"
    # As it says: written once more, it is carried once more.
    if mode == "bytes":
        taken.legacy.copy_object(Bucket="data", Key="multi", CopySource="data/multi", MetadataDirective="REPLACE", Metadata={"written": "again"})
    else:
        put_multipart(taken.legacy, "data", "multi", pattern(11 * MIB, "n"), 5 * MIB)
    expected = taken.legacy.get_object(Bucket="data", Key="multi")["Body"].read()
    told = migrate("final", taken.minio, taken.volume, "--id", "second", "--verify", mode, "--cutover")
    assert "0 differ, 0 unreadable" in told.stdout, told.stdout
    served = boto(fleet.gateway(taken.volume, "--require-marker", "second"))
    assert served.get_object(Bucket="data", Key="multi")["Body"].read() == expected


def test_what_it_refuses(fleet):
    minio = fleet.minio()
    boto(minio).create_bucket(Bucket="data")
    put(boto(minio), "a", "a")
    volume = fleet.directory("volume")

    def back(*arguments: str, source=f"volume:{volume}", target=minio, code: int) -> str:
        return migrate("roll-back", source, target, *arguments, code=code).stderr

    assert "no migration" in back("--id", "first", code=5)
    migrate("copy", minio, volume, "--id", "first")
    assert "not handed over" in back("--id", "first", code=5)
    migrate("final", minio, volume, "--id", "first", "--cutover")
    assert "--id" in back(code=2)
    assert "holds migration first" in back("--id", "second", code=5)
    gateway = fleet.gateway(volume)
    assert "volume:PATH" in migrate("roll-back", gateway, minio, "--id", "first", "--state-dir", str(volume / ".filestore"), code=2).stderr
    gateway.stop()
    command, environment = migrate_command("roll-back", f"volume:{volume}", minio, "--id", "first")
    command[command.index("--to") + 1] = f"minio-drive:{minio.directory}"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "start that MinIO" in done.stderr, done.stderr
    assert marker(volume)["state"] == "cutover"
    minio.stop()
    assert back("--id", "first", "--wait", "1", code=4)
    assert marker(volume)["state"] == "rollingBack"

"""SIGKILL at any moment: what was acknowledged is there, what is listed is whole, and the next start goes on.

30 rounds: 20 while clients write, 10 while a legacy store is copied, over both metadata modes and both durabilities;
`--soak N` makes it N times as many.
A killed process leaves the page cache alone; power loss is another matter (fsyncs are checked in the store's own tests).
"""

import os
import random
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from harness.cli import marker, migrate, migrate_command
from harness.s3 import boto, keys, md5, multipart_etag, pattern, put_multipart, snapshot
from harness.servers import Minio

pytestmark = pytest.mark.minutes(4)
KIB, MIB = 1 << 10, 1 << 20
PART = 5 * MIB
COMBINATIONS = [(metadata, durability) for metadata in ("xattr", "sidecar") for durability in ("durable", "relaxed")]
ROUNDS = 5  # of writes, for each combination


class Writer(threading.Thread):
    """Puts, overwrites, deletes and uploads in parts under keys of its own, until the server is gone.

    `acknowledged` is what the store said it has; `attempted` the change that was under way, which may or may not have happened.
    """

    def __init__(self, server, bucket: str, number: int, seed: int, state: dict, acknowledged: threading.Semaphore):
        super().__init__(daemon=True)
        self.server, self.bucket, self.number, self.count = server, bucket, number, acknowledged
        self.random = random.Random(seed)
        self.state = state  # key -> ETag or None (deleted)
        self.attempted: dict[str, str | None] = {}
        self.failure: Exception | None = None

    def run(self):
        client = boto(self.server, connect_timeout=5, read_timeout=30)
        step = 0
        try:
            while True:
                step += 1
                key = f"w{self.number}/{self.random.choice('abcdef')}/{self.random.randrange(8)}"
                kind = self.random.random()
                if kind < 0.2 and self.state.get(key):
                    self.attempted[key] = None
                    client.delete_object(Bucket=self.bucket, Key=key)
                    etag = None
                elif kind < 0.25:
                    body = pattern(PART + self.random.randrange(MIB), f"{key}{step}")
                    self.attempted[key] = multipart_etag(body, PART)
                    etag = put_multipart(client, self.bucket, key, body, PART)
                else:
                    body = pattern(self.random.choice((0, 100, 5 * KIB, 70 * KIB, 2 * MIB)), f"{key}{step}")
                    self.attempted[key] = md5(body)
                    etag = client.put_object(Bucket=self.bucket, Key=key, Body=body, Metadata={"step": str(step)})["ETag"].strip('"')
                assert etag == self.attempted[key], f"{key}: {etag}"
                self.state[key] = etag
                del self.attempted[key]
                self.count.release()
        except (BotoCoreError, ClientError) as error:
            code = (getattr(error, "response", None) or {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code:
                self.failure = error  # an answer: a refusal, not a dead server
        except Exception as error:  # noqa: BLE001 - reported by the test
            self.failure = error


def soak(request) -> tuple[int, str]:
    """How many times as many rounds, and what to seed random choices with beside the test's name: nothing, so that
    every usual run is the same; the time in a soak, printed so that a failure can be repeated."""
    times = request.config.getoption("--soak")
    seed = os.environ.get("FILESTORE_SOAK_SEED") or str(time.time_ns()) if times > 1 else ""
    if seed:
        print(f"FILESTORE_SOAK_SEED={seed}")
    return times, seed


def etag_of(body: bytes, etag: str) -> str:
    return multipart_etag(body, PART) if "-" in etag else md5(body)


@pytest.mark.parametrize(("metadata", "durability"), COMBINATIONS)
def test_during_puts(fleet, request, metadata, durability):
    times, seed = soak(request)
    gateway = fleet.gateway(None, "--metadata", metadata, "--durability", durability)
    client = boto(gateway)
    client.create_bucket(Bucket="data")
    states: list[dict] = [{} for _ in range(3)]
    choose = random.Random(f"{metadata}{durability}{seed}")
    for round_number in range(ROUNDS * times):
        count = threading.Semaphore(0)
        writers = [Writer(gateway, "data", i, choose.randrange(1 << 30), states[i], count) for i in range(len(states))]
        for writer in writers:
            writer.start()
        for _ in range(choose.randrange(3, 60)):
            assert count.acquire(timeout=60), [writer.failure for writer in writers]
        gateway.kill()
        for writer in writers:
            writer.join(60)
            assert writer.failure is None, writer.failure
        gateway.start()
        listed = set(keys(client, "data"))
        for writer in writers:
            for key in {*writer.state, *writer.attempted}:
                allowed = {writer.state.get(key)} | ({writer.attempted[key]} if key in writer.attempted else set())
                found = None
                if key in listed:
                    answer = client.get_object(Bucket="data", Key=key)
                    found = answer["ETag"].strip('"')
                    assert etag_of(answer["Body"].read(), found) == found, f"round {round_number}: {key} is not whole"
                assert found in allowed, f"round {round_number}: {key} is {found}, not one of {allowed}"
                writer.state[key] = found
        assert listed == {key for state in states for key, etag in state.items() if etag}, f"round {round_number}: keys that nobody put"
    # Nothing is left that keeps the bucket from going away.
    for key in keys(client, "data"):
        client.delete_object(Bucket="data", Key=key)
    client.delete_bucket(Bucket="data")
    assert not (gateway.data_root / "data").exists()


@pytest.fixture(scope="module")
def legacy(tmp_path_factory):
    """The drive of a stopped MinIO with enough on it to be killed half-way, and what its S3 API said."""
    root = tmp_path_factory.mktemp("kill")
    with Minio(root / "drive").start(root / "log") as server:
        client = boto(server)
        client.create_bucket(Bucket="data")
        for i in range(240):
            client.put_object(Bucket="data", Key=f"d{i % 7}/k{i:03d}", Body=pattern((100, 5 * KIB, 200 * KIB, 2 * MIB)[i % 4], str(i)), Metadata={"n": str(i)})
        for i in range(3):
            put_multipart(client, "data", f"multi/{i}", pattern(16 * MIB, str(i)), PART, Tagging="a=1")
        told = snapshot(client)
    yield root / "drive", told
    shutil.rmtree(root)


def published(volume: Path) -> int:
    """Files that have arrived in the bucket."""
    return sum(1 for path in (volume / "s3/data").rglob("*") if ".sgwtmp" not in path.parts and path.is_file())


COPIES = [("offline", *COMBINATIONS[i % 4]) for i in range(6)] + [("online", *COMBINATIONS[(i + 2) % 4]) for i in range(4)]


@pytest.mark.parametrize(("source", "metadata", "durability"), COPIES, ids=[f"{i}-{'-'.join(c)}" for i, c in enumerate(COPIES)])
def test_during_the_copy(fleet, legacy, request, source, metadata, durability):
    drive, expected = legacy
    times, seed = soak(request)
    volume = fleet.directory("volume")
    fleet.gateway(volume, "--metadata", metadata, "--durability", durability).stop()
    if source == "online":
        copied = fleet.root / "drive"
        shutil.copytree(drive, copied)
        drive = fleet.minio(copied)
    choose = random.Random(request.node.name + seed)
    command, environment = migrate_command("run", drive, volume)
    for _ in range(2 * times):
        goal = choose.randrange(1, 230)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        while process.poll() is None and published(volume) < goal:
            time.sleep(0.002)
        process.kill()
        process.wait()
    # What is there is whole, as the source has it; and it is not taken for the whole.
    finished = (volume / ".filestore/migration.json").exists() and marker(volume)["state"] == "cutover"
    gateway = fleet.gateway(volume, "--metadata", metadata)
    client = boto(gateway)
    so_far = snapshot(client).get("data", {})
    for key, told in so_far.items():
        assert told == expected["data"][key], key
    assert len(so_far) == len(expected["data"]) or not finished
    gateway.stop()
    migrate("run", drive, volume)
    gateway.start()
    assert snapshot(client) == expected
    assert marker(volume)["state"] == "cutover"


def test_the_gateway_is_not_ready_before_the_marker(fleet, legacy):
    """Started beside an unfinished copy, no Service leads to it."""
    drive, _ = legacy
    volume = fleet.directory("volume")
    gateway = fleet.unready_gateway(volume, "--require-marker", "run-7")
    assert gateway.readiness()[0] == 503
    gateway.stop()
    migrate("run", drive, volume, "--id", "run-7")
    gateway.start()
    assert gateway.readiness()[0] == 200

"""Several workers share one migration; and who may have a volume open beside whom."""

import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.cli import filestore, marker, migrate, migrate_command
from harness.counting import CountingProxy
from harness.s3 import boto, keys, listing
from harness.servers import free_port

# Where order is hard: keys around slashes, characters beyond ASCII, a bucket that begins like another.
ODD = ["a", "a!", "a/b", "a/b/c", "a.b", "a0", "dir/", "dir/x", "é", "\u00e9\u0301", "z\U0001f4e6", "~", " lead", "back\\slash", "%41"]


def fill(client, **buckets: list[str]) -> int:
    for bucket in buckets:
        client.create_bucket(Bucket=bucket)
    objects = [(bucket, key) for bucket, names in buckets.items() for key in names]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda object: client.put_object(Bucket=object[0], Key=object[1], Body="/".join(object).encode()), objects))
    return len(objects)


def start(verb: str, source, target, *arguments: str) -> subprocess.Popen:
    command, environment = migrate_command(verb, source, target, *arguments)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def together(workers: list[subprocess.Popen]) -> list[str]:
    told = [worker.communicate(timeout=120) for worker in workers]
    for worker, (out, err) in zip(workers, told):
        assert worker.returncode == 0, out + err
    return [out for out, _ in told]


@pytest.mark.parametrize("target", ["volume", "minio"])
def test_workers_side_by_side_copy_everything_once(fleet, target):
    """rustfs/rustfs#1489."""
    minio = fleet.minio()
    source = boto(minio)
    fill(source, data=ODD + [f"k/{i:04}" for i in range(240)], data2=[f"{i}" for i in range(40)], other=ODD)
    source.create_bucket(Bucket="empty")
    # MinIO hides `a/b` beside `a`: what it lists is what counts.
    expected = {bucket: listing(source, bucket) for bucket in ("data", "data2", "empty", "other")}
    count = sum(map(len, expected.values()))
    state = fleet.directory("state")
    if target == "volume":
        goal, arguments, runs = fleet.directory("volume"), [], fleet.directory("volume") / ".filestore/runs"
    else:
        goal, arguments, runs = fleet.minio(fleet.directory("second")), ["--state-dir", str(state)], state / "runs"
    with CountingProxy(minio) as proxy:
        told = together([start("copy", proxy, goal, *arguments, "--shard", f"{i}/4") for i in range(4)])
        copied = [int(re.search(r"copied (\d+) new and 0 changed", out)[1]) for out in told]
        assert sum(copied) == count and max(copied) < count / 2, copied
        # One listing for the cuts, and each range from where it begins: at most a page more for each cut.
        assert len(proxy.lists()) <= 2 * 4 + 4, proxy.lists()
        assert len(proxy.bodies()) == count
    run = next(path for path in runs.iterdir() if path.is_dir())
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == [f"shard-{i}-of-4" for i in range(4)]
    assert [json.loads((run / f"shard-{i}-of-4/checkpoint.json").read_text())["copied"] for i in range(4)] == copied
    verified = together([start("verify", minio, goal, *arguments, "--shard", f"{i}/4", "--json") for i in range(4)])
    assert sum(json.loads(out)["same"] for out in verified) == count
    # The end is one process again, and reads nothing twice.
    with CountingProxy(minio) as proxy:
        done = migrate("final", proxy, goal, *arguments)
        assert "copied 0 new and 0 changed" in done.stdout, done.stdout
        assert proxy.bodies() == []
    assert f"verified {count} objects" in done.stdout, done.stdout
    client = boto(fleet.gateway(goal) if target == "volume" else goal)
    # Another server sets the times itself.
    timed = slice(None) if target == "volume" else slice(3)
    for bucket, entries in expected.items():
        assert [entry[timed] for entry in listing(client, bucket)] == [entry[timed] for entry in entries]


def test_more_workers_than_objects_and_a_source_that_grows(fleet):
    minio = fleet.minio()
    source = boto(minio)
    fill(source, data=["m"])
    volume = fleet.directory("volume")
    together([start("copy", minio, volume, "--shard", f"{i}/3") for i in range(3)])
    # The cuts stay; what is new falls into one of the ranges.
    fill_more = [f"{c}{i}" for c in "amz" for i in range(5)]
    for key in fill_more:
        source.put_object(Bucket="data", Key=key, Body=key.encode())
    source.create_bucket(Bucket="zzz")
    source.put_object(Bucket="zzz", Key="last", Body=b"last")
    told = together([start("copy", minio, volume, "--shard", f"{i}/3") for i in range(3)])
    assert sum(int(re.search(r"copied (\d+) new", out)[1]) for out in told) == len(fill_more) + 1
    migrate("run", minio, volume)
    assert keys(boto(fleet.gateway(volume)), "data") == sorted([*fill_more, "m"])


@pytest.mark.parametrize("shard, told", [("4/4", "the last of 4 is 3"), ("1", "is no shard"), ("0/0", "1 to 1000")])
def test_a_shard_that_is_none_is_refused(fleet, shard, told):
    done = filestore("migrate", "copy", "--from", "http://127.0.0.1:1", "--to", f"volume:{fleet.directory('v')}", "--shard", shard)
    assert done.returncode == 2 and told in done.stderr, done.stderr


def held(fleet, minio, volume, *arguments: str) -> subprocess.Popen:
    """A copy that is stopped in the middle, with the volume open."""
    process = start("copy", minio, volume, *arguments)
    deadline = time.monotonic() + 60
    # The checkpoint of its pass is written before the first object.
    while not any('"copy"' in path.read_text() for path in volume.glob(".filestore/runs/**/checkpoint.json")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGSTOP)
    assert process.poll() is None
    return process


def refused(process: subprocess.Popen, code: int, *texts: str) -> None:
    out, err = process.communicate(timeout=60)
    assert process.returncode == code and any(text in err for text in texts), (process.returncode, out + err)


def gateway(volume) -> subprocess.Popen:
    from harness.servers import ACCESS, SECRET, binary, clean_environment
    command = [binary(), "gateway", str(volume), "--listen", f"127.0.0.1:{free_port()}", "--admin-listen", f"127.0.0.1:{free_port()}"]
    return subprocess.Popen(command, env=clean_environment(ROOT_ACCESS_KEY_ID=ACCESS, ROOT_SECRET_ACCESS_KEY=SECRET), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_who_may_have_a_volume_open_beside_whom(fleet):
    """Workers beside workers and gateways beside gateways, nothing else; in whatever order they start."""
    minio = fleet.minio()
    fill(boto(minio), data=[f"{i:04}" for i in range(400)])
    volume = fleet.directory("volume")
    # Workers keep gateways and ordinary migrations out, and let another worker in.
    worker = held(fleet, minio, volume, "--shard", "0/2")
    refused(gateway(volume), 5, "workers of a migration")
    refused(start("copy", minio, volume), 5, "workers of a migration")
    together([start("copy", minio, volume, "--shard", "1/2")])
    os.kill(worker.pid, signal.SIGCONT)
    together([worker])
    # An ordinary migration keeps all others out.
    for path in volume.glob("s3/data/0*"):
        path.unlink()
    for path in volume.glob(".filestore/runs/**/checkpoint.json"):
        path.write_text(path.read_text().replace('"copy"', '"done"'))
    alone = held(fleet, minio, volume)
    refused(gateway(volume), 5, "direct migration")
    refused(start("copy", minio, volume), 5, "another migration")
    refused(start("copy", minio, volume, "--shard", "0/2"), 5, "another migration")
    os.kill(alone.pid, signal.SIGCONT)
    together([alone])
    migrate("final", minio, volume, "--cutover")
    # A gateway keeps both out, and lets another gateway in.
    fleet.gateway(volume)
    fleet.gateway(volume)
    refused(start("copy", minio, volume), 5, "gateway")
    refused(start("copy", minio, volume, "--shard", "0/2"), 5, "gateway")
    assert marker(volume)["state"] == "cutover"


def test_a_killed_worker_resumes_its_range(fleet):
    minio = fleet.minio()
    count = fill(boto(minio), data=[f"{i:04}" for i in range(400)])
    volume = fleet.directory("volume")
    worker = held(fleet, minio, volume, "--shard", "0/2")
    worker.kill()
    worker.communicate()
    before = len(list(volume.glob("s3/data/[0-9]*")))  # not what is hidden: bodies on their way
    told = together([start("copy", minio, volume, "--shard", f"{i}/2") for i in range(2)])
    copied = sum(int(re.search(r"copied (\d+) new", out)[1]) for out in told)
    assert copied == count - before
    done = migrate("final", minio, volume)
    assert "copied 0 new and 0 changed" in done.stdout, done.stdout

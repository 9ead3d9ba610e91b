"""Quotas of buckets: reached and not passed under parallel writers, and counts that come out right whatever happens to the gateway."""

import random
import re
import threading
import urllib.request

import pytest
from botocore.exceptions import ClientError

from harness.s3 import boto, minio_client, pattern, put_multipart
from test_access import until, write

KIB, MIB = 1 << 10, 1 << 20
EXCEEDED = "XMinioAdminBucketQuotaExceeded"


def metrics(server, bucket: str) -> dict[str, int]:
    """What `/metrics` says of a bucket, by the name after `filestore_bucket_`."""
    with urllib.request.urlopen(f"{server.admin}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(rf'^filestore_bucket_(\w+){{bucket="{bucket}"}} (\d+)$', text, re.MULTILINE)
    return {name: int(value) for name, value in found}


def listed(client, bucket: str) -> dict[str, int]:
    """The truth: every object that a listing shows."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    sizes = [entry["Size"] for page in pages for entry in page.get("Contents", [])]
    return {"objects": len(sizes), "size_bytes": sum(sizes)}


def counted(server, bucket: str) -> dict[str, int]:
    """Objects and bytes as counted, once the count is complete."""
    until("the count", lambda: metrics(server, bucket).get("counted") == 1)
    found = metrics(server, bucket)
    return {name: found[name] for name in ("objects", "size_bytes")}


@pytest.fixture
def access(tmp_path):
    return tmp_path / "access.json"


def start(fleet, access, quota, metadata: str = "xattr", **more):
    write(access, [], [{"name": "data", "quota": quota} | more])
    server = fleet.gateway(None, "--access-file", str(access), "--metadata", metadata)
    boto(server).create_bucket(Bucket="data")
    return server


def code(call, **arguments) -> str | None:
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


def test_clients_see_the_error_that_minio_has(fleet, access):
    server = start(fleet, access, "1Mi", maxObjects=3)
    client = boto(server)
    client.put_object(Bucket="data", Key="a", Body=pattern(MIB - KIB))
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket="data", Key="b", Body=pattern(2 * KIB))
    told = error.value.response
    assert (told["Error"]["Code"], told["ResponseMetadata"]["HTTPStatusCode"]) == (EXCEEDED, 400)
    assert told["Error"]["Message"] == "Bucket quota exceeded"
    # Also with checksums behind the body, and with the body held back until the gateway says go on.
    for settings in ({"request_checksum_calculation": "when_supported"}, {}):
        assert code(boto(server, **settings).put_object, Bucket="data", Key="b", Body=pattern(300 * KIB)) == EXCEEDED
    import io

    from minio.error import S3Error
    with pytest.raises(S3Error) as refused:
        minio_client(server).put_object("data", "b", io.BytesIO(pattern(6 * MIB)), -1, part_size=5 * MIB)
    assert refused.value.code == EXCEEDED
    assert code(client.copy_object, Bucket="data", Key="c", CopySource="data/a") == EXCEEDED
    client.put_object(Bucket="data", Key="b", Body=pattern(KIB))
    assert code(client.put_object, Bucket="data", Key="c", Body=b"") is None
    assert code(client.put_object, Bucket="data", Key="d", Body=b"") == EXCEEDED
    client.put_object(Bucket="data", Key="a", Body=b"small")
    client.delete_object(Bucket="data", Key="b")
    assert counted(server, "data") == listed(client, "data") == {"objects": 2, "size_bytes": 5}
    assert metrics(server, "data")["quota_bytes"] == MIB and metrics(server, "data")["quota_objects"] == 3


@pytest.mark.parametrize("metadata", ["xattr", "sidecar"])
def test_parallel_writers_reach_the_quota_and_do_not_pass_it(fleet, access, metadata):
    quota = MIB  # half of what the keys would hold
    server = start(fleet, access, quota, metadata)
    refused, passed, stop = [0] * 6, [], threading.Event()

    def work(number: int):
        client, chance = boto(server), random.Random(number)
        for step in range(60):
            key = f"k{chance.randrange(30)}"
            if chance.random() < 0.15:
                client.delete_object(Bucket="data", Key=key)
                continue
            outcome = code(client.put_object, Bucket="data", Key=key, Body=pattern(chance.choice((100, 20 * KIB, 150 * KIB)), f"{number}.{step}"))
            assert outcome in (None, EXCEEDED)
            refused[number] += outcome is not None

    def watch():
        client = boto(server)
        while not stop.is_set():
            size = metrics(server, "data")["size_bytes"]
            if size > quota:
                passed.append(size)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    watcher = threading.Thread(target=watch)
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    watcher.join()
    truth = listed(boto(server), "data")
    assert passed == [] and truth["size_bytes"] <= quota
    assert sum(refused) > 0
    assert counted(server, "data") == truth


@pytest.mark.parametrize("metadata", ["xattr", "sidecar"])
def test_counts_are_right_again_after_every_kill(fleet, access, metadata):
    server = start(fleet, access, "1Gi", metadata)
    for round_ in range(4):
        wrote = threading.Semaphore(0)

        def work(number: int):
            client, chance, step = boto(server), random.Random(round_ * 10 + number), 0
            try:
                while True:
                    step += 1
                    key = f"{number}/{chance.choice('ab')}/k{chance.randrange(20)}"
                    kind = chance.random()
                    if kind < 0.25:
                        client.delete_object(Bucket="data", Key=key)
                    elif kind < 0.3:
                        put_multipart(client, "data", key, pattern(5 * MIB + step, key), 5 * MIB)
                    else:
                        # Some keys no tree can hold: `0/a` beside `0/a/k1`.
                        key = key.rpartition("/")[0] if kind > 0.95 else key
                        client.put_object(Bucket="data", Key=key, Body=pattern(chance.choice((0, 10, 3 * KIB, MIB + 1)), f"{round_}{step}"))
                    wrote.release()
            except Exception:  # the gateway is gone
                wrote.release()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(60):
            wrote.acquire()
        server.kill()
        for thread in threads:
            thread.join()
        assert not (server.directory / ".filestore/counters").exists()
        server.start()
        assert counted(server, "data") == listed(boto(server), "data")
    # An orderly end leaves the counts, and the next start takes them away.
    truth = counted(server, "data")
    assert server.stop() == 0
    assert (server.directory / ".filestore/counters").exists()
    server.start()
    assert not (server.directory / ".filestore/counters").exists()
    assert counted(server, "data") == truth == listed(boto(server), "data")


def test_what_versitygw_wrote_is_counted(fleet, access):
    server = start(fleet, access, "1Mi")
    boto(server).put_object(Bucket="data", Key="a", Body=b"12345")
    server.stop()
    other = fleet.versitygw(server.data_root)
    boto(other).put_object(Bucket="data", Key="dir/b", Body=pattern(MIB))
    other.stop()
    server.start()
    client = boto(server)
    until("the count", lambda: counted(server, "data") == {"objects": 2, "size_bytes": MIB + 5})
    assert code(client.put_object, Bucket="data", Key="c", Body=b"x") == EXCEEDED
    client.put_object(Bucket="data", Key="dir/b", Body=b"")
    client.put_object(Bucket="data", Key="c", Body=b"x")


def test_a_quota_follows_its_file(fleet, access):
    server = start(fleet, access, "1Ki")
    client = boto(server)
    assert code(client.put_object, Bucket="data", Key="a", Body=pattern(2 * KIB)) == EXCEEDED
    write(access, [], [{"name": "data", "quota": "2Ki"}])
    until("the larger quota", lambda: code(client.put_object, Bucket="data", Key="a", Body=pattern(2 * KIB)) is None)
    write(access, [])
    until("the end of the quota", lambda: code(client.put_object, Bucket="data", Key="b", Body=pattern(2 * KIB)) is None)

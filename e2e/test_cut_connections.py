"""A client that announces a length and goes away leaves nothing new and the old object as it was, however the connection ends.

versitygw 1.8.0 publishes the short object when a client closes in the middle of a presigned PUT (cases/gateway.md, B 19).
"""

import hashlib
import time

import pytest

from harness import wire
from harness.s3 import boto, describe, keys, pattern

KIB = 1 << 10
SIZE = 300 * KIB
OLD = b"the old object"

STYLES = {"plain": wire.plain, "presigned": wire.presigned, "chunk-signed": wire.chunk_signed, "unsigned-trailer": wire.unsigned_trailer}


def quiet(server) -> None:
    """Waits until no request is in flight any more: the metrics of the gateway say so."""
    import re
    import urllib.request
    for _ in range(500):
        text = urllib.request.urlopen(f"{server.admin}/metrics", timeout=5).read().decode()
        lines = [line for line in text.splitlines() if re.match(r"filestore_\w*in_flight\w*(\{.*\})? ", line)]
        assert lines, "the gateway counts no requests in flight"
        if all(float(line.rsplit(" ", 1)[1]) == 0 for line in lines):
            return
        time.sleep(0.02)
    raise AssertionError("requests stay in flight after their connections ended")


def leftovers(server) -> list[str]:
    """Temporary files that somebody could have forgotten."""
    found = []
    for root in server.data_root.glob("*/.sgwtmp"):
        found += [str(path) for path in root.rglob("*") if path.is_file()]
    return found


@pytest.fixture
def store(client, bucket):
    client.put_object(Bucket=bucket, Key="old", Body=OLD, Metadata={"k": "v"}, CacheControl="no-store")
    return bucket


def test_uncut_requests_are_right(server, client, store):
    """The requests of this file as such: what is cut below would have been accepted."""
    body = pattern(SIZE)
    for name, style in STYLES.items():
        answer = wire.send(server, *style(server, f"/{store}/{name}", body))
        assert answer.startswith(b"HTTP/1.1 200"), (name, answer[:500])
        assert client.get_object(Bucket=store, Key=name)["Body"].read() == body


@pytest.mark.parametrize("ending", wire.ENDINGS)
@pytest.mark.parametrize("style", STYLES)
def test_put(server, client, store, style, ending):
    body = pattern(SIZE)
    before = describe(client, store, "old")
    for key in ("old", "new"):
        head, encoded = STYLES[style](server, f"/{store}/{key}", body)
        for sent in (0, 1, 4096, 64 * KIB + 90, SIZE // 2, len(encoded) - 1):
            answer = wire.send(server, head, encoded[:sent], ending)
            assert not answer.startswith(b"HTTP/1.1 2"), (key, sent, answer[:300])
    quiet(server)
    assert keys(client, store) == ["old"]
    assert describe(client, store, "old") == before
    assert leftovers(server) == []


@pytest.mark.parametrize("ending", wire.ENDINGS)
def test_part(server, client, store, ending):
    upload = client.create_multipart_upload(Bucket=store, Key="m")["UploadId"]
    query = f"?partNumber=1&uploadId={upload}"
    body = pattern(SIZE)
    head, encoded = wire.plain(server, f"/{store}/m", body, query=query)
    for sent in (0, 5000, SIZE - 1):
        wire.send(server, head, encoded[:sent], ending)
    quiet(server)
    assert "Parts" not in client.list_parts(Bucket=store, Key="m", UploadId=upload)
    # A part that was there stays.
    etag = client.upload_part(Bucket=store, Key="m", UploadId=upload, PartNumber=1, Body=b"whole")["ETag"]
    wire.send(server, head, encoded[:SIZE // 2], ending)
    quiet(server)
    parts = client.list_parts(Bucket=store, Key="m", UploadId=upload)["Parts"]
    assert [(p["PartNumber"], p["Size"], p["ETag"]) for p in parts] == [(1, 5, etag)]
    client.abort_multipart_upload(Bucket=store, Key="m", UploadId=upload)
    assert keys(client, store) == ["old"]


def test_head_cut_anywhere(server, client, store):
    head, _ = wire.plain(server, f"/{store}/new", b"x" * 10)
    for sent in range(0, len(head), 37):
        wire.send(server, head[:sent], b"", "close")
    quiet(server)
    assert keys(client, store) == ["old"]


def test_body_of_another_hash(server, client, store):
    """All bytes arrive, but not those that were signed."""
    head, body = wire.plain(server, f"/{store}/old", pattern(SIZE))
    answer = wire.send(server, head, body[:-1] + b"!")
    assert answer.startswith(b"HTTP/1.1 400") and b"XAmzContentSHA256Mismatch" in answer, answer
    head, body = wire.chunk_signed(server, f"/{store}/old", pattern(SIZE))
    answer = wire.send(server, head, body[:100 * KIB] + b"!" + body[100 * KIB + 1:])
    assert answer.startswith(b"HTTP/1.1 40"), answer
    assert client.get_object(Bucket=store, Key="old")["Body"].read() == OLD


def test_copy_source_vanishes(server, client, store):
    """The source is deleted or replaced while it is copied: the copy is one of the whole objects, or none."""
    from concurrent.futures import ThreadPoolExecutor

    from botocore.exceptions import ClientError
    bodies = {hashlib.md5(body).hexdigest(): body for body in (pattern(8 << 20, "a"), pattern(9 << 20, "b"))}
    first, second = bodies.values()

    def copy(i):
        try:
            boto(server).copy_object(Bucket=store, Key=f"to{i}", CopySource={"Bucket": store, "Key": "from"})
        except ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchKey"

    with ThreadPoolExecutor(3) as pool:
        for i in range(6):
            client.put_object(Bucket=store, Key="from", Body=first)
            running = [pool.submit(copy, f"{i}-{n}") for n in range(2)]
            if i % 2:
                client.delete_object(Bucket=store, Key="from")
            else:
                client.put_object(Bucket=store, Key="from", Body=second)
            for future in running:
                future.result()
    copies = [key for key in keys(client, store) if key.startswith("to")]
    assert copies
    for key in copies:
        answer = client.get_object(Bucket=store, Key=key)
        assert answer["Body"].read() == bodies[answer["ETag"].strip('"')]
    assert client.get_object(Bucket=store, Key="old")["Body"].read() == OLD

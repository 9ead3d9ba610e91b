"""minio-py 7.2.20 as the users of the file store run it: no region, plain HTTP, short keys."""

import importlib.util
import io
import os
import sys
import tarfile
from pathlib import Path

import pytest
from minio.commonconfig import CopySource
from minio.deleteobjects import DeleteObject
from minio.error import S3Error

from conftest import bucket_name
from harness.s3 import boto, md5, minio_client, multipart_etag, pattern

pytestmark = pytest.mark.minutes(2)
KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def minio(server):
    return minio_client(server)


def test_buckets_without_a_region(minio):
    name = bucket_name()
    assert not minio.bucket_exists(name)
    minio.make_bucket(name)
    assert minio.bucket_exists(name)
    assert name in [bucket.name for bucket in minio.list_buckets()]
    minio.remove_bucket(name)
    assert not minio.bucket_exists(name)


def test_making_a_bucket_again_is_refused(minio, bucket):
    with pytest.raises(S3Error) as error:
        minio.make_bucket(bucket)
    assert error.value.code in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")


@pytest.mark.parametrize("size", [0, 1, 64 * KIB, MIB, 5 * MIB - 1], ids=str)
def test_put_of_known_size(minio, bucket, size):
    data = pattern(size)
    result = minio.put_object(bucket, "known", io.BytesIO(data), len(data), content_type="text/csv", metadata={"Origin": "studio"})
    assert result.etag == md5(data)
    stat = minio.stat_object(bucket, "known")
    assert (stat.size, stat.etag, stat.content_type) == (size, md5(data), "text/csv")
    assert stat.metadata["x-amz-meta-origin"] == "studio"
    answer = minio.get_object(bucket, "known")
    try:
        assert answer.read() == data
    finally:
        answer.close()
        answer.release_conn()


@pytest.mark.parametrize("part_size", [5 * MIB, 8 * MIB], ids=["5MiB", "8MiB"])
@pytest.mark.parametrize("size", [64 * KIB, MIB, 16 * MIB], ids=["64KiB", "1MiB", "16MiB"])
def test_stream_of_unknown_length(minio, bucket, size, part_size):
    """length=-1: minio-py cuts the stream into parts; one part makes a plain object, more an ETag `-N`."""
    data = pattern(size)
    result = minio.put_object(bucket, "stream", io.BytesIO(data), -1, part_size=part_size)
    parts = -(-size // part_size)
    # minio-py sends a stream that fits into one part as a plain PUT.
    expected = md5(data) if parts == 1 else multipart_etag(data, part_size)
    assert result.etag == expected
    if size == 16 * MIB:
        assert expected.endswith({5 * MIB: "-4", 8 * MIB: "-2"}[part_size])
    assert minio.stat_object(bucket, "stream").etag == expected
    assert minio.get_object(bucket, "stream").read() == data
    listed = list(minio.list_objects(bucket))
    assert [(o.object_name, o.size, o.etag) for o in listed] == [("stream", size, expected)]


class FailingStream(io.RawIOBase):
    """Gives `size` bytes, then fails as a broken pipe would."""

    def __init__(self, size):
        self.left = size

    def read(self, wanted=-1):
        if self.left <= 0:
            raise ConnectionError("the producer went away")
        take = self.left if wanted < 0 else min(wanted, self.left)
        self.left -= take
        return b"x" * take


def test_failing_stream_leaves_nothing(minio, server, bucket):
    minio.put_object(bucket, "out", io.BytesIO(b"old"), 3)
    with pytest.raises(ConnectionError):
        minio.put_object(bucket, "out", FailingStream(12 * MIB), -1, part_size=5 * MIB)
    assert minio.get_object(bucket, "out").read() == b"old"
    assert boto(server).list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_missing_key(minio, bucket):
    for call in (minio.stat_object, minio.get_object):
        with pytest.raises(S3Error) as error:
            call(bucket, "nowhere")
        assert error.value.code == "NoSuchKey"
        assert error.value.response.status == 404
    minio.remove_object(bucket, "nowhere")  # S3 answers 204


def test_missing_bucket(minio):
    with pytest.raises(S3Error) as error:
        minio.put_object(bucket_name(), "k", io.BytesIO(b"x"), 1)
    assert error.value.code == "NoSuchBucket"


def test_wrong_secret(server, bucket):
    with pytest.raises(S3Error) as error:
        minio_client(server, secret="Ab3dEf6hIj9X").put_object(bucket, "k", io.BytesIO(b"x"), 1)
    assert error.value.code == "SignatureDoesNotMatch"
    assert error.value.response.status == 403


def test_remove(minio, bucket):
    minio.put_object(bucket, "a/b/c", io.BytesIO(b"x"), 1)
    minio.remove_object(bucket, "a/b/c")
    assert list(minio.list_objects(bucket, recursive=True)) == []


def test_remove_many(minio, bucket):
    for i in range(7):
        minio.put_object(bucket, f"many/{i}", io.BytesIO(b"x"), 1)
    errors = minio.remove_objects(bucket, [DeleteObject(f"many/{i}") for i in range(7)] + [DeleteObject("many/none")])
    assert list(errors) == []
    assert list(minio.list_objects(bucket, recursive=True)) == []


@pytest.mark.parametrize("size", [64 * KIB, 16 * MIB], ids=["64KiB", "16MiB"])
def test_copy(minio, bucket, size):
    data = pattern(size)
    minio.put_object(bucket, "from", io.BytesIO(data), size, part_size=5 * MIB, content_type="text/x-a", metadata={"k": "v"})
    minio.copy_object(bucket, "to/copy", CopySource(bucket, "from"))
    stat = minio.stat_object(bucket, "to/copy")
    assert (stat.size, stat.content_type, stat.metadata["x-amz-meta-k"]) == (size, "text/x-a", "v")
    assert minio.get_object(bucket, "to/copy").read() == data


def test_range(minio, bucket):
    data = pattern(MIB)
    minio.put_object(bucket, "k", io.BytesIO(data), MIB)
    assert minio.get_object(bucket, "k", offset=1000, length=5000).read() == data[1000:6000]
    assert minio.get_object(bucket, "k", offset=MIB - 10).read() == data[-10:]


def test_files(minio, bucket, tmp_path):
    source = tmp_path / "in"
    source.write_bytes(pattern(11 * MIB))
    minio.fput_object(bucket, "file", str(source), part_size=5 * MIB)
    minio.fget_object(bucket, "file", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == source.read_bytes()


def test_presigned(minio, bucket):
    import urllib3
    http = urllib3.PoolManager()
    answer = http.request("PUT", minio.presigned_put_object(bucket, "a b/ü+%41"), body=b"by url")
    assert answer.status == 200, answer.data
    answer = http.request("GET", minio.presigned_get_object(bucket, "a b/ü+%41"))
    assert (answer.status, answer.data) == (200, b"by url")


def test_list_of_exactly_1000_among_2000(minio, bucket):
    """A page of S3 holds 1000 keys: the boundary is where listings lose or repeat one."""
    from concurrent.futures import ThreadPoolExecutor

    def put(name):
        minio.put_object(bucket, name, io.BytesIO(b"x"), 1)

    names = [f"in/{i:04d}" for i in range(1000)] + [f"out/{i:04d}" for i in range(1000)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, names))
    assert [o.object_name for o in minio.list_objects(bucket, prefix="in/", recursive=True)] == names[:1000]
    assert [o.object_name for o in minio.list_objects(bucket, recursive=True)] == names
    assert [o.object_name for o in minio.list_objects(bucket)] == ["in/", "out/"]
    assert [o.object_name for o in minio.list_objects(bucket, recursive=True, start_after="in/0999")] == names[1000:]


# minio-py's own functional tests, as they lie in its source distribution. Left out: what is no operation of plain
# buckets (versioning, policies, notifications, select, snowball archives).
OWN = """
make_bucket_default_region make_bucket_with_region negative_make_bucket_invalid_name list_buckets fput_object_small_file fput_object_large_file
fput_object_with_content_type copy_object_no_copy_condition copy_object_etag_match copy_object_with_metadata copy_object_negative_etag_match
copy_object_modified_since copy_object_unmodified_since put_object stat_object get_object fget_object get_object_with_default_length
get_partial_object list_objects_v1 list_objects_with_prefix list_objects_with_1001_files list_objects presigned_get_object_default_expiry
presigned_get_object_expiry presigned_get_object_response_headers presigned_put_object_default_expiry presigned_put_object_expiry
thread_safe remove_object remove_objects remove_bucket
""".split()


@pytest.fixture(scope="session")
def own_tests(scratch):
    """The module of functional tests from minio-py's source distribution, which scripts/bootstrap lays beside the environment."""
    archives = sorted((Path(sys.prefix) / "sdist").glob("minio-7.2.20*.tar.gz"))
    assert archives, f"no source distribution of minio-py in {sys.prefix}/sdist: run scripts/bootstrap"
    with tarfile.open(archives[0]) as archive:
        archive.extractall(scratch / "sdist", filter="data")
    path = next((scratch / "sdist").glob("*/tests/functional/tests.py"))
    spec = importlib.util.spec_from_file_location("minio_functional_tests", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    directory = scratch / "own-tests"
    directory.mkdir()
    module._test_file, module._large_file = str(directory / "datafile-1-MB"), str(directory / "datafile-11-MB")
    Path(module._test_file).write_bytes(os.urandom(MIB))
    Path(module._large_file).write_bytes(os.urandom(11 * MIB))
    module._is_aws = False
    return module


@pytest.mark.parametrize("name", OWN)
def test_own(minio, own_tests, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own_tests._client = minio
    getattr(own_tests, f"test_{name}")({})

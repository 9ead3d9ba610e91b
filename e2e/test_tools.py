"""Command-line clients: aws-cli, rclone and s5cmd."""

import json
import os

import pytest

from conftest import bucket_name
from harness.s3 import boto, keys, multipart_etag, pattern
from harness.tools import Aws, Rclone, S5cmd, tree

MIB = 1 << 20


@pytest.fixture
def files(tmp_path):
    """A small tree with names that clients have to quote."""
    root = tmp_path / "files"
    for name, size in (("a.txt", 10), ("empty", 0), ("dir/b c+d%41.bin", 70_000), ("dir/sub/caf\u00e9", 3), ("dir-x/big", 11 * MIB), ("dir.y/'quote\" & <tag>", 5)):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pattern(size))
    return root


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    path.mkdir()
    return path


# aws-cli

@pytest.fixture
def aws(server, home):
    return Aws(server, home)


def test_aws_buckets(aws):
    name = bucket_name()
    aws("s3", "mb", f"s3://{name}")
    assert name in aws("s3", "ls").stdout
    aws("s3", "rb", f"s3://{name}")
    assert aws("s3api", "head-bucket", "--bucket", name, check=False).returncode != 0


def test_aws_sync_there_and_back(aws, bucket, files, tmp_path, client):
    aws("s3", "sync", str(files), f"s3://{bucket}/in")
    assert keys(client, bucket) == sorted((f"in/{name}" for name in tree(files)), key=str.encode)
    assert aws("s3", "sync", "--no-progress", str(files), f"s3://{bucket}/in").stdout == ""  # nothing is copied again
    aws("s3", "sync", f"s3://{bucket}/in", str(tmp_path / "out"))
    assert tree(tmp_path / "out") == tree(files)
    aws("s3", "sync", f"s3://{bucket}/in", f"s3://{bucket}/copy")
    (files / "a.txt").unlink()
    aws("s3", "sync", "--delete", str(files), f"s3://{bucket}/copy")
    assert keys(client, bucket, Prefix="copy/") == sorted((f"copy/{name}" for name in tree(files)), key=str.encode)
    aws("s3", "rm", "--recursive", f"s3://{bucket}/")
    assert keys(client, bucket) == []


def test_aws_cp_with_metadata_and_stream(aws, bucket, files, tmp_path, client):
    aws("s3", "cp", str(files / "dir-x/big"), f"s3://{bucket}/big", "--metadata", "k=v", "--content-type", "text/x", "--cache-control", "no-store")
    head = client.head_object(Bucket=bucket, Key="big")
    assert (head["Metadata"], head["ContentType"], head["CacheControl"], head["ContentLength"]) == ({"k": "v"}, "text/x", "no-store", 11 * MIB)
    assert head["ETag"].strip('"') == multipart_etag((files / "dir-x/big").read_bytes(), 8 * MIB)
    aws("s3", "mv", f"s3://{bucket}/big", f"s3://{bucket}/moved")  # a multipart copy, of which aws-cli 1 loses the headers
    aws("s3", "cp", f"s3://{bucket}/moved", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (files / "dir-x/big").read_bytes()
    assert keys(client, bucket) == ["moved"]
    aws("s3", "cp", str(files / "a.txt"), f"s3://{bucket}/small", "--metadata", "k=v", "--content-type", "text/x", "--cache-control", "no-store")
    aws("s3", "mv", f"s3://{bucket}/small", f"s3://{bucket}/dir/small")
    head = client.head_object(Bucket=bucket, Key="dir/small")
    assert (head["Metadata"], head["ContentType"], head["CacheControl"]) == ({"k": "v"}, "text/x", "no-store")


def test_aws_ls(aws, bucket, client):
    for key in ("dir/", "dir/x", "top"):
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    lines = [line.split(None, 3)[-1].strip() for line in aws("s3", "ls", f"s3://{bucket}/").stdout.splitlines()]
    assert lines == ["PRE dir/", "top"] or lines == ["dir/", "top"]
    told = aws("s3", "ls", "--recursive", "--summarize", f"s3://{bucket}/").stdout
    assert "Total Objects: 3" in told


def test_aws_s3api_pages(aws, bucket, client):
    for i in range(5):
        client.put_object(Bucket=bucket, Key=f"k{i}", Body=b"")
    told = json.loads(aws("s3api", "list-objects-v2", "--bucket", bucket, "--page-size", "2", "--output", "json").stdout)
    assert [entry["Key"] for entry in told["Contents"]] == [f"k{i}" for i in range(5)]


# rclone

@pytest.fixture
def rclone(server, home):
    return Rclone(server, home)


def test_rclone_copy_check_and_sync(rclone, bucket, files, tmp_path, client):
    for name in tree(files):
        os.utime(files / name, (1_600_000_000, 1_600_000_000))
    rclone("copy", str(files), f"s3:{bucket}/in", "--metadata")
    rclone("check", str(files), f"s3:{bucket}/in")
    told = rclone("copy", str(files), f"s3:{bucket}/in", "-v", "--stats=0")
    assert "Copied" not in told.stderr
    # rclone keeps the time in user metadata of its own.
    assert client.head_object(Bucket=bucket, Key="in/a.txt")["Metadata"]["mtime"].startswith("1600000000")
    rclone("copy", f"s3:{bucket}/in", f"s3:{bucket}/copy")
    rclone("check", f"s3:{bucket}/in", f"s3:{bucket}/copy", "--download")
    (files / "dir/sub/caf\u00e9").unlink()
    rclone("sync", str(files), f"s3:{bucket}/copy")
    rclone("sync", f"s3:{bucket}/copy", str(tmp_path / "out"))
    assert tree(tmp_path / "out") == tree(files)
    rclone("purge", f"s3:{bucket}/in")
    assert keys(client, bucket, Prefix="in/") == []


def test_rclone_metadata_survives(rclone, bucket, client):
    client.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="image/jpeg", CacheControl="no-store", Metadata={"who": "me"})
    rclone("copyto", "--metadata", f"s3:{bucket}/k", f"s3:{bucket}/l")
    head = client.head_object(Bucket=bucket, Key="l")
    assert (head["ContentType"], head["CacheControl"], head["Metadata"]["who"]) == ("image/jpeg", "no-store", "me")


def test_rclone_rcat_and_lists(rclone, bucket, client):
    for key in ("a/b/c", "a/d", "e"):
        client.put_object(Bucket=bucket, Key=key, Body=b"12345")
    told = json.loads(rclone("lsjson", "-R", f"s3:{bucket}").stdout)
    assert sorted(e["Path"] for e in told if not e["IsDir"]) == ["a/b/c", "a/d", "e"]
    assert json.loads(rclone("size", "--json", f"s3:{bucket}").stdout)["bytes"] == 15
    assert bucket in rclone("lsd", "s3:").stdout


# s5cmd

@pytest.fixture
def s5cmd(server, home):
    return S5cmd(server, home)


def test_s5cmd_there_and_back(s5cmd, bucket, files, tmp_path, client):
    s5cmd("cp", f"{files}/", f"s3://{bucket}/in/")
    assert keys(client, bucket) == sorted((f"in/{name}" for name in tree(files)), key=str.encode)
    s5cmd("sync", f"s3://{bucket}/in/*", f"{tmp_path}/out/")
    assert tree(tmp_path / "out") == tree(files)
    # s5cmd does not escape copy sources, so a key with % would name another one.
    s5cmd("cp", f"s3://{bucket}/in/dir-x/*", f"s3://{bucket}/copy/dir/")
    s5cmd("mv", f"s3://{bucket}/in/a.txt", f"s3://{bucket}/copy/a.txt")
    assert keys(client, bucket, Prefix="copy/") == ["copy/a.txt", "copy/dir/big"]
    assert s5cmd("cat", f"s3://{bucket}/copy/a.txt").stdout.encode() == (files / "a.txt").read_bytes()
    s5cmd("rm", f"s3://{bucket}/in/*")
    assert keys(client, bucket, Prefix="in/") == []
    assert "dir/" in s5cmd("ls", f"s3://{bucket}/copy/").stdout


def test_s5cmd_many(s5cmd, server, bucket, tmp_path):
    root = tmp_path / "many"
    root.mkdir()
    for i in range(300):
        (root / f"{i:03d}").write_bytes(str(i).encode())
    s5cmd("cp", f"{root}/", f"s3://{bucket}/")
    assert keys(boto(server), bucket) == [f"{i:03d}" for i in range(300)]
    told = s5cmd("du", f"s3://{bucket}/*").stdout
    assert told.split()[0] == str(sum(len(str(i)) for i in range(300)))

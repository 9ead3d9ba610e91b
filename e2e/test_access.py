"""Users and what they may do, through the clients that they use: boto3, minio-py and aws-cli."""

import io
import json
import os
import threading
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError
from minio import Minio
from minio.error import S3Error

from conftest import bucket_name
from harness.s3 import boto, keys, pattern, put_multipart
from harness.tools import Aws
from harness.waiting import until

MIB = 1 << 20


class As:
    """The server as a user sees it: what clients are built from."""

    def __init__(self, server, access: str, secret: str):
        self.server, self.access, self.secret = server, access, secret
        self.region, self.ca = server.region, server.ca

    @property
    def host(self):
        return self.server.host

    @property
    def endpoint(self):
        return self.server.endpoint


def write(path, users: list[dict], buckets: list[dict] = ()) -> None:
    """Replaces an access file as a mounted Secret is replaced: at once."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"users": users, "buckets": list(buckets)}))
    os.replace(new, path)


def user(name: str, *grants: dict, keys: list[tuple[str, str]] | None = None) -> dict:
    pairs = keys or [(name, f"secret-of-{name}")]
    return {"name": name, "keys": [{"accessKey": access, "secretKey": secret} for access, secret in pairs], "grants": list(grants)}


def metric(server, name: str) -> float:
    with urllib.request.urlopen(f"{server.admin}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no metric {name}")


@pytest.fixture
def site(fleet, tmp_path):
    """A gateway with users, and two buckets with objects of root's."""
    path = tmp_path / "access.json"
    write(path, [
        user("reader", {"bucket": "data", "access": "read"}),
        user("writer", {"bucket": "data", "access": "write"}),
        user("team", {"bucket": "data", "prefix": "team/", "access": "readwrite"}),
        user("all", {"bucket": "*", "access": "readwrite"}),
        user("none"),
    ])
    server = fleet.gateway(None, "--access-file", str(path))
    root = boto(server)
    for bucket in ("data", "other"):
        root.create_bucket(Bucket=bucket)
        for key in ("team/k", "else/k"):
            root.put_object(Bucket=bucket, Key=key, Body=b"body")
    server.root, server.file = root, path
    server.client = lambda name: boto(As(server, name, f"secret-of-{name}"))
    return server


def code(call, **arguments) -> str | None:
    """The error code of a call, `None` when it succeeds."""
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


def outcomes(client, key: str, mine: str) -> dict[str, str | None]:
    """What a user gets for each kind of request on `data`: a key of root's, and one of the user's own."""
    here = {"Bucket": "data", "Key": key}
    own = {"Bucket": "data", "Key": mine}
    return {
        "get": code(client.get_object, **here),
        "head": code(client.head_object, **here),
        "tags": code(client.get_object_tagging, **here),
        "put": code(client.put_object, Body=b"x", **own),
        "tag": code(client.put_object_tagging, Tagging={"TagSet": []}, **own),
        "copy": code(client.copy_object, CopySource=here, **own),
        "upload": code(client.create_multipart_upload, **own),
        "delete": code(client.delete_object, **own),
        "list": code(client.list_objects_v2, Bucket="data", Prefix=key.rpartition("/")[0] + "/"),
        "list all": code(client.list_objects_v2, Bucket="data"),
        "bucket": code(client.head_bucket, Bucket="data"),
        "location": code(client.get_bucket_location, Bucket="data"),
        "drop": code(client.delete_bucket, Bucket="data"),
        "elsewhere": code(client.get_object, Bucket="other", Key=key),
    }


NO, NOT_TOLD = "AccessDenied", "403"  # the answer to a HEAD has no body
READS = dict.fromkeys(("get", "tags", "list", "list all"))
WRITES = dict.fromkeys(("put", "tag", "upload", "delete"))
SEES = dict.fromkeys(("bucket", "location"))


@pytest.mark.parametrize("name, key, allowed", [
    ("reader", "team/k", READS | SEES | {"head": None}),
    ("writer", "team/k", WRITES | SEES),
    ("team", "team/k", READS | WRITES | SEES | {"head": None, "copy": None, "list all": NO}),
    ("team", "else/k", SEES),
    ("all", "else/k", READS | WRITES | SEES | {"head": None, "copy": None, "elsewhere": None}),
    ("none", "team/k", {}),
])
def test_each_grant_with_boto3(site, name, key, allowed):
    denied = dict.fromkeys(outcomes(site.root, key, "mine/k"), NO) | {"head": NOT_TOLD, "bucket": NOT_TOLD}
    site.root.put_object(Bucket="data", Key=key.replace("/k", "/mine"), Body=b"")
    found = outcomes(site.client(name), key, key.replace("/k", "/mine"))
    assert found == denied | allowed
    assert site.root.get_object(Bucket="data", Key=key)["Body"].read() == b"body"


def test_multipart_and_batches_within_a_prefix(site):
    client = site.client("team")
    body = pattern(11 * MIB)
    put_multipart(client, "data", "team/large", body, 5 * MIB)
    assert client.get_object(Bucket="data", Key="team/large")["Body"].read() == body
    assert keys(client, "data", Prefix="team/") == ["team/k", "team/large"]
    answer = client.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "team/large"}, {"Key": "else/k"}]})
    assert [entry["Key"] for entry in answer["Deleted"]] == ["team/large"]
    assert [(entry["Key"], entry["Code"]) for entry in answer["Errors"]] == [("else/k", NO)]
    assert keys(site.root, "data") == ["else/k", "team/k"]
    names = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
    assert names == ["data"]


def test_a_presigned_url_may_what_its_signer_may(site):
    for name, key, expected in (("team", "team/k", 200), ("team", "else/k", 403), ("writer", "team/k", 403)):
        url = site.client(name).generate_presigned_url("get_object", Params={"Bucket": "data", "Key": key})
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                status = answer.status
        except urllib.error.HTTPError as error:
            status = error.code
        assert status == expected, (name, key)


def test_minio_py(site):
    team = Minio(site.host, access_key="team", secret_key="secret-of-team", secure=False)
    assert team.bucket_exists("data")
    assert team.get_object("data", "team/k").read() == b"body"
    team.put_object("data", "team/stream", io.BytesIO(pattern(6 * MIB)), -1, part_size=5 * MIB)
    assert [entry.object_name for entry in team.list_objects("data", prefix="team/")] == ["team/k", "team/stream"]
    for refused in (lambda: team.get_object("data", "else/k"), lambda: list(team.list_objects("data")), lambda: team.make_bucket("another"),
                    lambda: team.put_object("data", "else/mine", io.BytesIO(b"x"), 1)):
        with pytest.raises(S3Error) as error:
            refused()
        assert error.value.code == NO
    everywhere = Minio(site.host, access_key="all", secret_key="secret-of-all", secure=False)
    name = bucket_name()
    everywhere.make_bucket(name)
    assert {bucket.name for bucket in everywhere.list_buckets()} == {"data", "other", name}


def test_aws_cli(site, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    aws = Aws(As(site, "team", "secret-of-team"), home)
    source = tmp_path / "file"
    source.write_bytes(pattern(9 * MIB))
    aws("s3", "cp", str(source), "s3://data/team/file")
    aws("s3", "cp", "s3://data/team/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    refused = aws("s3", "cp", str(source), "s3://data/else/file", check=False)
    assert refused.returncode != 0 and "AccessDenied" in refused.stderr
    refused = aws("s3", "ls", "s3://data/", check=False)
    assert refused.returncode != 0 and "AccessDenied" in refused.stderr
    assert "file" in aws("s3", "ls", "s3://data/team/").stdout


def test_keys_are_rotated_under_load_without_one_failed_request(site):
    grant = {"bucket": "data", "prefix": "team/", "access": "readwrite"}
    in_use, failures, stop = [("team", "secret-of-team")], [], threading.Event()
    done = [0] * 3

    def work(number: int):
        while not stop.is_set():
            access, secret = in_use[0]
            client = boto(As(site, access, secret))
            try:
                for _ in range(5):
                    client.put_object(Bucket="data", Key=f"team/w{number}", Body=b"x")
                    client.get_object(Bucket="data", Key=f"team/w{number}")
            except ClientError as error:
                failures.append(((access, secret), str(error)))
            done[number] += 1

    def works(access: str, secret: str) -> bool:
        return code(boto(As(site, access, secret)).get_object, Bucket="data", Key="team/k") is None

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        old = in_use[0]
        # Another access key, and after it another secret of the same access key.
        for new in (("team-2", "second"), ("team-2", "third"), ("team-3", "fourth")):
            write(site.file, [user("team", grant, keys=[new, old])])
            until("the new key", lambda: works(*new), seconds=60)
            assert works(*old)
            in_use[0] = new
            seen = list(done)
            until("all writers to change", lambda: all(now >= before + 2 for now, before in zip(done, seen)), seconds=60)
            write(site.file, [user("team", grant, keys=[new])])
            until("the old key's end", lambda: not works(*old), seconds=60)
            old = new
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert code(boto(As(site, "team", "secret-of-team")).list_buckets) == "InvalidAccessKeyId"
    assert code(boto(As(site, "team-3", "third")).list_buckets) == "SignatureDoesNotMatch"


def test_a_broken_file_keeps_what_is_in_force_and_says_so(site):
    good = site.file.read_text()
    site.file.write_text(good[:-20])
    until("the metric", lambda: metric(site, "filestore_access_last_reload_successful") == 0, seconds=60)
    assert code(site.client("team").get_object, Bucket="data", Key="team/k") is None
    until("the log", lambda: "Access files cannot be used" in site.output())
    assert str(site.file) in site.output()
    assert "secret-of" not in site.output()
    site.file.write_text(good)
    until("the metric", lambda: metric(site, "filestore_access_last_reload_successful") == 1, seconds=60)
    assert metric(site, "filestore_access_users") == 5


def test_a_gateway_does_not_start_with_a_broken_file(site, tmp_path):
    """Without users that are meant to be there clients would be refused for no reason that they could see."""
    import subprocess

    from harness.servers import binary, clean_environment
    broken = tmp_path / "broken.yaml"
    broken.write_text("users:\n- name: a\n  keys: []\n  grant: []\n")
    run = subprocess.run([binary(), "gateway", str(tmp_path / "v"), "--listen", "127.0.0.1:0", "--admin-listen", "none", "--access-file", str(broken)],
                         env=clean_environment(ROOT_ACCESS_KEY_ID="a", ROOT_SECRET_ACCESS_KEY="b"), capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert f"{broken}: line 4" in run.stderr and "unknown field `grant`" in run.stderr

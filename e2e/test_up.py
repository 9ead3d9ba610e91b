"""`filestore up`, with the examples that the repository ships and a real MinIO."""

import json
import os
import re
import signal
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.cli import marker
from harness.s3 import boto, keys, snapshot
from harness.servers import Minio, Server, binary, clean_environment, free_port
from harness.waiting import until

EXAMPLES = Path(__file__).parent.parent / "examples"


class Up(Server):
    """`filestore up MANIFEST`, serving. Its data is in `directory`."""

    name = "up"

    def __init__(self, manifest: Path, data: Path, *arguments: str):
        super().__init__(data)
        self.manifest, self.arguments = manifest, arguments

    def command(self):
        return [binary(), "up", str(self.manifest), "--data-dir", str(self.directory), "--listen", self.host, "--admin-listen", f"127.0.0.1:{self.admin_port}", *self.arguments]

    def ready_url(self):
        return f"http://127.0.0.1:{self.admin_port}/readyz"


def once(manifest: Path, data: Path, *arguments: str, code: int = 0) -> str:
    done = subprocess.run([binary(), "up", str(manifest), "--data-dir", str(data), "--once", *arguments], env=clean_environment(), capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def manifest_of_drive(name: str = "minio-drive") -> dict[str, dict[str, dict]]:
    """What MinIO's S3 API said of the shipped drive: what must come out."""
    told = json.loads((EXAMPLES / f"{name}.json").read_text())
    wanted: dict[str, dict] = {bucket: {} for bucket in told["buckets"]}
    for entry in told["objects"]:
        if entry["latest"] and not any(m["key"] == entry["key"] and m["bucket"] == entry["bucket"] and m["latest"] for m in told["delete_markers"]):
            wanted[entry["bucket"]][entry["key"]] = {name: entry[name] for name in ("size", "etag", "last_modified", "headers", "metadata", "tags", "sha256")}
    return wanted


@pytest.fixture
def claim(tmp_path):
    """The shipped drive, unpacked as the claim that examples/takeover.yaml names."""
    def unpack(name: str = "minio-drive") -> Path:
        path = tmp_path / "data/ryax-minio"
        path.mkdir(parents=True)
        with tarfile.open(EXAMPLES / f"{name}.tar.xz") as archive:
            archive.extractall(path, filter="data")
        return path
    return unpack


@pytest.mark.parametrize("name", ["minio-drive", "minio-drive-compressed"])
def test_takeover(fleet, claim, tmp_path, name):
    claim(name)
    data = tmp_path / "data"
    told = once(EXAMPLES / "takeover.yaml", data)
    volume = data / "ryax-filestore"
    assert marker(volume)["state"] == "cutover"
    # What stays behind is named: noncurrent versions, a delete marker, the key that MinIO hid.
    assert "gone" in told and "shadow/p" in told, told
    server = Up(EXAMPLES / "takeover.yaml", data)
    fleet.servers.append(server)
    server.start(tmp_path / "log")
    client = boto(server)
    found = snapshot(client)
    wanted = manifest_of_drive(name)
    assert sorted(found) == sorted(wanted)
    for bucket, objects in wanted.items():
        assert sorted(found[bucket]) == sorted(objects)
        for key, entry in objects.items():
            assert found[bucket][key] == entry, f"{bucket}/{key}"
    # The second run copied nothing and said so, and how to reach the store.
    # It answers a moment before it says where.
    until("the endpoint in the output", lambda: server.endpoint in server.output())
    output = server.output()
    assert not re.search(r"\bcop(y|ying|ied) [1-9]", output, re.IGNORECASE), output
    # Ctrl-C stops it, in order.
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) in (0, 130)
    assert "panicked" not in server.output()


def test_second_run_looks_at_the_source_and_changes_nothing(fleet, tmp_path):
    """After cut-over clients write and delete; MinIO is still there when `up` starts again."""
    minio = fleet.minio()
    source = boto(minio)
    source.create_bucket(Bucket="data")
    for name in ("kept", "deleted", "overwritten"):
        source.put_object(Bucket="data", Key=name, Body=name.encode())
    manifest = tmp_path / "online.yaml"
    text = (EXAMPLES / "online.yaml").read_text()
    assert "http://127.0.0.1:9100" in text
    manifest.write_text(text.replace("http://127.0.0.1:9100", minio.endpoint))
    data = tmp_path / "data"
    expected = snapshot(source)
    server = Up(manifest, data)
    fleet.servers.append(server)
    server.start(tmp_path / "log")
    client = boto(server)
    assert snapshot(client) == expected
    assert marker(data / "ryax-online")["state"] == "cutover"
    client.delete_object(Bucket="data", Key="deleted")
    client.put_object(Bucket="data", Key="overwritten", Body=b"by a client")
    client.put_object(Bucket="data", Key="new", Body=b"new")
    before = snapshot(client)
    server.stop()
    once(manifest, data)
    server.start()
    assert snapshot(client) == before
    assert snapshot(source) == expected
    server.stop()
    minio.stop()
    server.start()  # a source that is gone does not keep a store from serving that was handed over
    assert snapshot(client) == before


def test_fresh(fleet, tmp_path):
    manifest, data = EXAMPLES / "fresh.yaml", tmp_path / "data"
    once(manifest, data)
    server = Up(manifest, data)
    server.access, server.secret = "admin", "change-me-please"
    fleet.servers.append(server)
    server.start(tmp_path / "log")
    client = boto(server)
    assert [b["Name"] for b in client.list_buckets()["Buckets"]] == ["my-bucket"]
    client.put_object(Bucket="my-bucket", Key="k", Body=b"x")
    server.stop()
    server.start()
    assert keys(client, "my-bucket") == ["k"]


def test_ports_in_use_are_seen_before_anything_is_copied(claim, tmp_path):
    claim()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        done = subprocess.run([binary(), "up", str(EXAMPLES / "takeover.yaml"), "--data-dir", str(tmp_path / "data"), "--listen", address, "--admin-listen", f"127.0.0.1:{free_port()}"],
                              env=clean_environment(), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode != 0 and address in done.stderr
    assert sorted(os.listdir(tmp_path / "data")) == ["ryax-minio"]


def test_a_drive_that_minio_wrote_a_moment_ago(fleet, claim, tmp_path):
    """The shipped drive goes back into service, is written to and stopped: the take-over carries what is there now."""
    minio = Minio(claim())
    fleet.servers.append(minio)
    minio.start(tmp_path / "log")
    boto(minio).put_object(Bucket="empty-bucket", Key="live", Body=b"x")
    expected = snapshot(boto(minio))
    minio.stop()
    once(EXAMPLES / "takeover.yaml", tmp_path / "data")
    server = Up(EXAMPLES / "takeover.yaml", tmp_path / "data")
    fleet.servers.append(server)
    server.start(tmp_path / "log")
    found = snapshot(boto(server))
    assert found["empty-bucket"] == expected["empty-bucket"]
    for key, entry in expected["ryax-filestore"].items():
        assert found["ryax-filestore"][key] == entry, key

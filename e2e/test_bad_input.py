"""What is wrong is said in one line, with an exit code of its own, and nothing is written."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness.cli import filestore, marker, migrate, migrate_command
from harness.s3 import boto, keys
from harness.servers import ACCESS, SECRET, binary, clean_environment, free_port

KEYS = {"ROOT_ACCESS_KEY_ID": ACCESS, "ROOT_SECRET_ACCESS_KEY": SECRET}


def contents(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def one_line(done: subprocess.CompletedProcess) -> str:
    """The message of a failed run: exit code not 0, exactly one line on standard error, which names the program."""
    assert done.returncode not in (0, 101, 134, 139), f"exit {done.returncode}: {done.stderr}"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, f"not one line:\n{done.stderr}"
    assert lines[0].startswith("filestore"), lines[0]
    assert "panicked" not in lines[0] and SECRET not in lines[0]
    return lines[0]


def gateway(volume, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """A gateway that is expected to end by itself."""
    port, admin = free_port(), free_port()
    return filestore("gateway", str(volume), "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}", *arguments, **(KEYS | environment))


# Volumes

def test_volume_that_does_not_exist(tmp_path):
    told = one_line(gateway(tmp_path / "none"))
    assert str(tmp_path / "none") in told
    assert contents(tmp_path) == []


def test_volume_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    assert str(tmp_path / "file") in one_line(gateway(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.skipif(os.geteuid() != 0, reason="starts the gateway as another user")
def test_volume_of_somebody_else():
    """As an unprivileged user, on a volume that only root may read."""
    with tempfile.TemporaryDirectory(prefix="filestore-e2e-") as name:
        root = Path(name)
        root.chmod(0o755)
        volume = root / "volume"
        volume.mkdir(mode=0o700)
        shutil.copy(binary(), root / "filestore")
        done = subprocess.run([root / "filestore", "gateway", str(volume), "--listen", f"127.0.0.1:{free_port()}", "--admin-listen", f"127.0.0.1:{free_port()}"],
                              env=clean_environment(**KEYS), capture_output=True, text=True, timeout=60, user=65534, group=65534, cwd="/", stdin=subprocess.DEVNULL)
        assert str(volume) in one_line(done)
        assert contents(volume) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a filesystem")
def test_read_only_volume(tmp_path):
    volume = tmp_path / "volume"
    volume.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(volume)], check=True)
    try:
        assert str(volume) in one_line(gateway(volume))
    finally:
        subprocess.run(["umount", str(volume)], check=True)


def test_volume_without_extended_attributes(ramfs):
    told = one_line(gateway(ramfs, "--metadata", "xattr"))
    assert "attribute" in told and "sidecar" in told, told
    assert contents(ramfs) == []


def test_sidecar_is_chosen_where_attributes_are_missing(fleet, ramfs):
    running = fleet.gateway(ramfs)
    client = boto(running)
    client.create_bucket(Bucket="data")
    client.put_object(Bucket="data", Key="k", Body=b"x", Metadata={"a": "b"})
    running.stop()
    running.start()
    assert client.head_object(Bucket="data", Key="k")["Metadata"] == {"a": "b"}
    running.stop()


@pytest.mark.parametrize(("first", "then"), [("xattr", "sidecar"), ("sidecar", "xattr")])
def test_other_metadata_mode_than_the_volumes(fleet, first, then):
    running = fleet.gateway(None, "--metadata", first)
    running.stop()
    before = contents(running.directory)
    told = one_line(gateway(running.directory, "--metadata", then))
    assert first in told and then in told, told
    assert contents(running.directory) == before


def test_volume_of_a_newer_format(fleet):
    running = fleet.gateway()
    running.stop()
    path = running.directory / ".filestore/volume.json"
    identity = json.loads(path.read_text())
    field = next(name for name, value in identity.items() if value == 1)
    path.write_text(json.dumps(identity | {field: 999}))
    assert "999" in one_line(gateway(running.directory))


# Settings

def test_no_keys(tmp_path):
    done = filestore("gateway", str(tmp_path), "--listen", f"127.0.0.1:{free_port()}", "--admin-listen", "none")
    assert "key" in one_line(done).lower()
    assert contents(tmp_path) == []


@pytest.mark.parametrize("which", ["--listen", "--admin-listen"])
def test_port_in_use(tmp_path, which):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        other = {"--listen": "--admin-listen", "--admin-listen": "--listen"}[which]
        done = filestore("gateway", str(tmp_path), which, address, other, f"127.0.0.1:{free_port()}", **KEYS)
    told = one_line(done)
    assert address in told and "in use" in told, told


# Sources

@pytest.fixture
def drive(fleet):
    """The drive of a stopped MinIO with one object."""
    minio = fleet.minio()
    client = boto(minio)
    client.create_bucket(Bucket="data")
    client.put_object(Bucket="data", Key="k", Body=b"x")
    minio.stop()
    return minio.directory


def test_drive_without_format(fleet, drive):
    (drive / ".minio.sys/format.json").unlink()
    volume = fleet.directory("volume")
    told = one_line(migrate("run", drive, volume, code=None))
    assert "format.json" in told, told
    assert contents(volume) == []


def test_drive_of_an_erasure_set(fleet, drive):
    path = drive / ".minio.sys/format.json"
    told = json.loads(path.read_text())
    told["xl"]["sets"] = [[told["xl"]["this"], *(f"00000000-0000-4000-8000-00000000000{i}" for i in range(3))]]
    path.write_text(json.dumps(told))
    volume = fleet.directory("volume")
    told = one_line(migrate("run", drive, volume, code=None))
    assert "4" in told and ("erasure" in told or "drives" in told), told
    assert contents(volume) == []


def test_directory_that_is_no_drive(fleet):
    volume = fleet.directory("volume")
    one_line(migrate("run", fleet.directory("empty"), volume, code=None))
    assert contents(volume) == []


def test_wrong_secret_of_the_source(fleet):
    minio = fleet.minio()
    boto(minio).create_bucket(Bucket="data")
    volume = fleet.directory("volume")
    minio.secret = "wrong-secret"
    # By default it waits, as for a source that is down: keys may be on their way.
    told = one_line(migrate("run", minio, volume, "--wait", "0", code=6))
    assert "wrong-secret" not in told
    assert contents(volume) == []


def test_source_that_is_down(fleet):
    """It may come back: wait, say so, and never start empty beside it."""
    minio = fleet.minio()
    boto(minio).create_bucket(Bucket="data")
    boto(minio).put_object(Bucket="data", Key="k", Body=b"x")
    minio.stop()
    volume = fleet.directory("volume")
    done = migrate("run", minio, volume, "--wait", "2", code=4)
    assert minio.host in done.stderr
    assert not (volume / ".filestore/migration.json").exists()
    # The same command, started before the source is up, carries everything once it is.
    command, environment = migrate_command("run", minio, volume, "--wait", "120")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    minio.start()
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert marker(volume)["state"] == "cutover"
    assert keys(boto(fleet.gateway(volume)), "data") == ["k"]


def test_locations_that_are_none(fleet):
    for source in ("ftp://host", "http://user:password@127.0.0.1:1", "nothing"):
        done = filestore("migrate", "run", "--from", source, "--to", f"volume:{fleet.directory('volume')}")
        assert done.returncode == 2
        assert done.stderr.startswith("filestore: ") and done.stderr.count("\n") == 1, done.stderr
        assert "password" not in done.stderr
    assert contents(fleet.directory("volume")) == []


# Manifests

MANIFEST = """\
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {root-user: ryax, root-password: Ab3dEf6hIj9k}
---
apiVersion: filestore.ryax.tech/v1alpha1
kind: Filestore
metadata: {name: store}
spec:
  credentials: {secretRef: {name: keys}}
  storage: {size: 1Gi}
"""


@pytest.mark.parametrize(("old", "new", "names"), [
    ("storage: {size: 1Gi}", "storage: {sise: 1Gi}", "sise"),
    ("storage: {size: 1Gi}", "storage: {size: 1Gi}\n  replicas: three", "replicas"),
    ("storage: {size: 1Gi}", "storage: [1Gi]", "storage"),
    ("storage: {size: 1Gi}", "storage: {size: much}", "size"),
    ("metadata: {name: store}", "metadata: {name: Not_A_Name}", "Not_A_Name"),
    ("name: keys}}", "name: other}}", "other"),
    ("v1alpha1", "v9", "v9"),
    ("storage: {size: 1Gi}", "storage: {size: 1Gi", ""),
], ids=["unknown-field", "unknown-field-2", "wrong-type", "wrong-quantity", "wrong-name", "missing-secret", "wrong-version", "no-yaml"])
def test_manifest(tmp_path, old, new, names):
    assert old in MANIFEST
    manifest = tmp_path / "store.yaml"
    manifest.write_text(MANIFEST.replace(old, new))
    done = subprocess.run([binary(), "up", str(manifest), "--once"], env=clean_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    told = one_line(done)
    assert names in told, told
    assert contents(tmp_path) == ["store.yaml"]


def test_manifest_that_is_missing(tmp_path):
    assert "none.yaml" in one_line(filestore("up", str(tmp_path / "none.yaml"), "--once"))

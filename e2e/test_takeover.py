"""Taking over from a real MinIO: each way in and each way out gives the same objects, in all that S3 says of them."""

import hashlib
import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

from harness.cli import marker, migrate
from harness.s3 import boto, describe, multipart_etag, pattern, put_multipart, snapshot
from harness.servers import Minio

pytestmark = pytest.mark.minutes(3)
KIB, MIB = 1 << 10, 1 << 20

ODD = ["space and+plus %41.txt", "unicode/caf\u00e9", "unicode/cafe\u0301", "unicode/\U0001f4e6", "dot.dir/..hidden", "colon:quote\"'<>&.txt", "k" * 255,
       "deep/" + "/".join("abcdefgh"), "trailing-dot./x.", "back\\slash", "a+b", "a b", "a%20b", "a%2Fb", "100%", "A.txt", "a.txt", "\u00a0nbsp\u202f\u3000"]


def fill(client) -> None:
    """What the file store of a Ryax site holds, and what is hard to carry."""
    client.create_bucket(Bucket="ryax-filestore")
    put = lambda key, body, **extra: client.put_object(Bucket="ryax-filestore", Key=key, Body=body, **extra)  # noqa: E731
    # MinIO keeps bodies up to 128 KiB inside its metadata file, larger ones beside it in 1 MiB blocks.
    for size in (0, 1, 128 * KIB, 128 * KIB + 1, MIB, MIB + 1, 3 * MIB + 17):
        put(f"executions-data/{size}", pattern(size))
    put("iodata/incompressible.bin", hashlib.shake_128(b"filestore").digest(2 * MIB + 5))
    put("iodata/report.csv", pattern(4096), ContentType="text/csv; charset=utf-8", CacheControl="max-age=60", ContentDisposition="attachment; filename*=UTF-8''r%C3%A9sum%C3%A9.csv",
        ContentLanguage="fr", ContentEncoding="identity", Expires=datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc), Metadata={"Origin": "studio", "json": '[{"C":"D"}]'}, Tagging="project=a%20b&stage=prod")
    put("iodata/no-extension", pattern(300), ContentType="image/jpeg")
    put("iodata/checksum", pattern(3000), ChecksumAlgorithm="SHA256")
    for key in ODD:
        put(f"odd/{key}", key.encode())
    put("folder/", b"", ContentType="application/x-directory")
    put("folder/child", b"c")
    put("shadow/p/child", b"hidden")  # hidden from MinIO's own listings by the next line
    put("shadow/p", b"hides")
    # Two streams as the users' client sends them.
    put_multipart(client, "ryax-filestore", "multi/5MiB-parts", pattern(16 * MIB), 5 * MIB, ContentType="application/zip", Metadata={"kind": "multi"}, Tagging="m=1", CacheControl="no-store")
    put_multipart(client, "ryax-filestore", "multi/8MiB-parts", pattern(16 * MIB, "t"), 8 * MIB)
    put_multipart(client, "ryax-filestore", "multi/one-small-part", pattern(200), 5 * MIB)
    client.create_multipart_upload(Bucket="ryax-filestore", Key="multi/unfinished")
    client.create_bucket(Bucket="empty-bucket")
    client.create_bucket(Bucket="with-versions")
    client.put_bucket_versioning(Bucket="with-versions", VersioningConfiguration={"Status": "Enabled"})
    for size in (10, 20_000, 30):
        client.put_object(Bucket="with-versions", Key="doc", Body=pattern(size))
    client.put_object(Bucket="with-versions", Key="gone", Body=b"x")
    client.delete_object(Bucket="with-versions", Key="gone")


class Legacy:
    """A filled MinIO: its drive, what its S3 API said, and what it hides."""

    def __init__(self, root: Path, compression: bool):
        self.drive = root / "drive"
        self.drive.mkdir(parents=True)
        self.environment = {"MINIO_COMPRESSION_ENABLE": "on", "MINIO_COMPRESSION_MIME_TYPES": "*"} if compression else {}
        with Minio(self.drive, **self.environment).start(root / "log") as server:
            client = boto(server)
            fill(client)
            self.objects = snapshot(client)
            self.hidden = {"shadow/p/child": describe(client, "ryax-filestore", "shadow/p/child")}
        assert self.objects["ryax-filestore"]["multi/5MiB-parts"]["etag"] == multipart_etag(pattern(16 * MIB), 5 * MIB)
        assert "shadow/p/child" not in self.objects["ryax-filestore"]

    def with_hidden(self) -> dict:
        return self.objects | {"ryax-filestore": self.objects["ryax-filestore"] | self.hidden}


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "compressed"])
def legacy(request, tmp_path_factory) -> Legacy:
    root = tmp_path_factory.mktemp("legacy")
    yield Legacy(root, request.param)
    shutil.rmtree(root)


def fingerprint(root: Path) -> dict:
    """Everything of a tree that reading must not change."""
    told = {}
    for path in [root, *sorted(root.rglob("*"))]:
        about = path.lstat()
        told[str(path.relative_to(root))] = (about.st_mode, about.st_uid, about.st_gid, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return told



def assert_same(found: dict, expected: dict) -> None:
    """As ==, but says which objects differ and in what."""
    assert sorted(found) == sorted(expected)
    for bucket in expected:
        assert sorted(found[bucket]) == sorted(expected[bucket]), bucket
        for key, told in expected[bucket].items():
            assert found[bucket][key] == told, f"{bucket}/{key}"


@pytest.mark.parametrize("target", ["direct", "gateway"])
@pytest.mark.parametrize("source", ["offline", "online"])
def test_every_object_arrives_whole(fleet, legacy, source, target):
    volume = fleet.directory("volume")
    state = fleet.directory("state")
    if source == "online":
        drive = fleet.root / "drive"
        shutil.copytree(legacy.drive, drive, symlinks=True)
        origin = fleet.minio(drive, **legacy.environment)
    else:
        origin = legacy.drive
        before = fingerprint(legacy.drive)
    if target == "gateway":
        gateway = fleet.gateway(volume)
        done = migrate("run", origin, gateway, "--state-dir", str(state))
    else:
        done = migrate("run", origin, volume)
        assert marker(volume)["state"] == "cutover"
        gateway = fleet.gateway(volume)
    if source == "offline":
        assert fingerprint(legacy.drive) == before, "the source is only read"
    client = boto(gateway)
    assert_same(snapshot(client), legacy.with_hidden() if source == "offline" else legacy.objects)
    told = done.stdout + done.stderr
    # What stays behind is counted and named.
    assert "doc" in told and "gone" in told, told
    if source == "offline":
        assert "shadow/p/child" in told, told
    # Parts are known: the users' client reads single ones.
    head = client.head_object(Bucket="ryax-filestore", Key="multi/8MiB-parts", PartNumber=2)
    assert (head["PartsCount"], head["ContentLength"]) == (2, 8 * MIB)
    # Nothing to do the second time, and verify agrees.
    if target == "gateway":
        migrate("verify", origin, gateway, "--state-dir", str(state))
    assert_same(snapshot(client, body=False), {b: {k: {n: v for n, v in o.items() if n != "sha256"} for k, o in objects.items()}
                                               for b, objects in (legacy.with_hidden() if source == "offline" else legacy.objects).items()})


def test_a_foreign_store_gets_everything_but_the_times(fleet, legacy):
    """Another S3 server sets Last-Modified itself; part layouts are repeated there, so that ETags stay."""
    drive = fleet.root / "drive"
    shutil.copytree(legacy.drive, drive, symlinks=True)
    origin = fleet.minio(drive, **legacy.environment)
    other = fleet.minio(fleet.directory("other"))
    migrate("run", origin, other, "--state-dir", str(fleet.directory("state")))
    timeless = lambda objects: {b: {k: {n: v for n, v in o.items() if n != "last_modified"} for k, o in of.items()} for b, of in objects.items()}  # noqa: E731
    assert_same(timeless(snapshot(boto(other))), timeless(legacy.objects))
    again = migrate("copy", origin, other, "--state-dir", str(fleet.directory("another-state")))
    assert "copied 0 new and 0 changed objects" in again.stdout + again.stderr, again.stdout + again.stderr


@pytest.mark.parametrize("mode", ["xattr", "sidecar"])
def test_in_each_metadata_mode(fleet, mode):
    """A volume that exists in one mode keeps it through a take-over."""
    root = fleet.directory("legacy-here")
    legacy = Legacy(root / "small", False)
    volume = fleet.directory("volume")
    fleet.gateway(volume, "--metadata", mode).stop()
    migrate("run", legacy.drive, volume)
    assert_same(snapshot(boto(fleet.gateway(volume, "--metadata", mode))), legacy.with_hidden())


def test_after_cutover_the_volume_belongs_to_its_clients(fleet):
    """The legacy store still runs and is looked at again: what clients wrote and deleted since stays so."""
    minio = fleet.minio()
    source = boto(minio)
    source.create_bucket(Bucket="data")
    for name in ("kept", "deleted", "overwritten", "left"):
        source.put_object(Bucket="data", Key=name, Body=name.encode())
    volume = fleet.directory("volume")
    migrate("run", minio, volume)
    gateway = fleet.gateway(volume)
    client = boto(gateway)
    client.delete_object(Bucket="data", Key="deleted")
    client.put_object(Bucket="data", Key="overwritten", Body=b"by a client")
    client.put_object(Bucket="data", Key="new", Body=b"new")
    client.create_bucket(Bucket="new-bucket")
    before = snapshot(client)
    gateway.stop()
    again = migrate("run", minio, volume)
    gateway.start()
    assert_same(snapshot(client), before)
    assert marker(volume)["state"] == "cutover", again.stdout
    gateway.stop()
    # A writer that missed the move: additions are merged, a conflict is not applied, nothing is deleted.
    source.put_object(Bucket="data", Key="late", Body=b"late")
    source.put_object(Bucket="data", Key="overwritten", Body=b"by a late writer")
    source.delete_object(Bucket="data", Key="left")
    told = migrate("run", minio, volume, code=None)
    gateway.start()
    after = snapshot(client)
    assert after["data"]["late"]["sha256"] == hashlib.sha256(b"late").hexdigest(), told.stdout + told.stderr
    del after["data"]["late"]
    assert_same(after, before)
    assert "overwritten" in told.stdout + told.stderr and "left" in told.stdout + told.stderr


def test_one_changed_byte_on_the_drive_is_noticed(fleet):
    """MinIO keeps a hash of every block beside it: rot is reported, never carried."""
    minio = fleet.minio()
    client = boto(minio)
    client.create_bucket(Bucket="data")
    client.put_object(Bucket="data", Key="good", Body=b"good")
    client.put_object(Bucket="data", Key="rotten", Body=pattern(2 * MIB))
    minio.stop()
    part = next((minio.directory / "data/rotten").glob("*/part.1"))
    with part.open("r+b") as file:
        file.seek(MIB + 4096)
        byte = file.read(1)
        file.seek(MIB + 4096)
        file.write(bytes([byte[0] ^ 1]))
    volume = fleet.directory("volume")
    done = migrate("run", minio.directory, volume, code=1)
    assert "rotten" in done.stdout + done.stderr
    if (volume / ".filestore/migration.json").exists():
        assert marker(volume)["state"] != "cutover"
    assert not (volume / "s3/data/rotten").exists()


def test_an_online_source_that_is_written_meanwhile(fleet):
    """Copy while writers run, then the final pass: the end is what the source holds then."""
    minio = fleet.minio()
    source = boto(minio)
    source.create_bucket(Bucket="data")
    for i in range(50):
        source.put_object(Bucket="data", Key=f"k{i:02d}", Body=str(i).encode())
    volume = fleet.directory("volume")
    migrate("copy", minio, volume)
    source.put_object(Bucket="data", Key="k00", Body=b"changed")
    source.delete_object(Bucket="data", Key="k01")
    source.put_object(Bucket="data", Key="more", Body=b"more")
    expected = snapshot(source)
    migrate("run", minio, volume)
    assert_same(snapshot(boto(fleet.gateway(volume))), expected)


def test_plan_copies_nothing(fleet, legacy):
    volume = fleet.directory("volume")
    done = migrate("plan", legacy.drive, volume, code=None)
    told = done.stdout + done.stderr
    assert "ryax-filestore" in told and "shadow/p" in told, told
    assert not any(path.is_file() for path in volume.rglob("*"))

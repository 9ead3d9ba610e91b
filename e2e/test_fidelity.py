"""Fidelity, case by case: what other copying tools lose (docs/migration-cases.md) is there on the other side, on a volume of ours and on a foreign server."""

import functools
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import boto3
import pytest

from harness.cli import marker, migrate, migrate_command
from harness.s3 import boto, keys, multipart_etag, pattern, put_multipart, snapshot
from harness.servers import Gateway, Minio, TlsMinio, binary
from test_plan import aged

KIB, MIB = 1 << 10, 1 << 20
PART = 5 * MIB

# Names by what was lost elsewhere (peak/s5cmd#375, #397 and their like), each in the middle, in front and at the end of a name.
CHARACTERS = {"space": " ", "dollar": "$", "tilde": "~", "no-break-space": "\u00a0", "narrow-no-break-space": "\u202f", "left-to-right-mark": "\u200e", "ideographic-space": "\u3000", "delete": "\x7f",
              "plus": "+", "percent": "%", "hash": "#", "question": "?", "ampersand": "&", "equals": "=", "at": "@", "colon": ":", "semicolon": ";", "comma": ",", "exclamation": "!", "asterisk": "*",
              "apostrophe": "'", "quote": '"', "less": "<", "greater": ">", "bar": "|", "caret": "^", "backtick": "`", "braces": "{}", "brackets": "[]", "parentheses": "()", "emoji": "\U0001f4e6"}
NAMES = [f"k01/{name}/{form}" for name, c in CHARACTERS.items() for form in (f"in{c}side", f"{c}front", f"end{c}")]
ENCODED = ["k07/a b", "k07/a+b", "k07/a%20b", "k07/a%2Bb", "k07/a%2Fb", "k07/a/b"]
COMPOSED, DECOMPOSED = "k03/caf\u00e9", "k03/cafe\u0301"
DIRECTORIES = {"k04/": "application/x-directory", "k04/sub/": "text/x-sub", "k04/empty/": "application/x-empty"}
# A whole object of each size around a part, and the same in parts where there are several.
SIZES = {PART - 1: 1, PART: 1, PART + 1: 2, 3 * PART: 3}
TYPES = {"m01/photo.jpg": "image/jpeg", "m01/without-extension": "image/jpeg", "m01/page.html": "application/octet-stream", "m01/table.csv": "text/csv; charset=iso-8859-1", "m01/odd.bin": "x/y; a=\"b c\""}
METADATA = {"plain": "value", "UpperCase": "Kept As Sent", "with-dash_and.dot": "1", "json": '[{"C": "D", "e": [1, 2]}]', "long": "x" * 1500, "equals": "a=b&c=d;e", "url": "https%3A%2F%2Fexample.org/?a=b"}
HEADERS = {"CacheControl": "max-age=60, must-revalidate", "ContentDisposition": "attachment; filename=\"a b.csv\"; filename*=UTF-8''r%C3%A9sum%C3%A9.csv", "ContentEncoding": "gzip", "ContentLanguage": "fr, en",
           "Expires": "Wed, 02 Jan 2030 03:04:05 GMT", "ContentType": "text/csv"}


@functools.cache
def large(size: int) -> bytes:
    return pattern(size)


def fill(client) -> None:
    client.create_bucket(Bucket="data")
    put = lambda key, body=None, **extra: client.put_object(Bucket="data", Key=key, Body=key.encode() if body is None else body, **extra)  # noqa: E731
    for key, kind in TYPES.items():
        put(key, ContentType=kind)
    put("m01/absent")
    put("m02/all", Metadata=METADATA)
    put("m06/all", Metadata={"beside": "them"}, **HEADERS)
    put("m04/user-metadata-alone", Metadata={"k": "v"}, ContentType="image/png")
    put("m05/two", Tagging="stage=prod&project=a%20b%2Bc")
    put("m05/most", Tagging="&".join(f"key{n}=value{n}" for n in range(10)))
    put("m05/none")
    for key in [*NAMES, *ENCODED, COMPOSED, DECOMPOSED]:
        put(key)
    for key, kind in DIRECTORIES.items():
        put(key, b"", ContentType=kind, Metadata={"of": key})
    put("k04/sub/child")
    put("k05/empty", b"")
    put("k05/empty-with-type", b"", ContentType="text/plain", Metadata={"k": "v"})
    put_multipart(client, "data", "k05/empty-in-parts", b"", PART)
    put("k05/one", b"1")
    for size, parts in SIZES.items():
        extra = {"ContentType": "image/tiff", "Metadata": {"size": str(size), "Name": "a b"}, "CacheControl": "no-store", "Tagging": f"size={size}"}
        put(f"m03/whole-{size}", large(size), **extra)
        assert put_multipart(client, "data", f"m03/parts-{size}", large(size), PART, **extra).endswith(f"-{parts}")


class Copied:
    """Both sides of one migration, and what was said about it."""

    def __init__(self, kind: str, origin: Minio, goal, told: str, again: str):
        self.kind, self.origin, self.goal, self.told, self.again = kind, origin, goal, told, again
        self.source, self.target = boto(origin), boto(goal)

    def head(self, key: str) -> dict:
        return self.target.head_object(Bucket="data", Key=key)

    def body(self, key: str) -> bytes:
        return self.target.get_object(Bucket="data", Key=key)["Body"].read()


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    root = tmp_path_factory.mktemp("origin")
    (root / "drive").mkdir()
    with Minio(root / "drive").start(root / "log") as minio:
        fill(boto(minio))
        yield minio
    shutil.rmtree(root)


@pytest.fixture(scope="module", params=["volume", "minio"])
def copied(request, origin, tmp_path_factory):
    """From a MinIO that serves: to a volume, read through our gateway, or to another MinIO."""
    root = tmp_path_factory.mktemp(request.param)
    for name in ("target", "state", "other-state"):
        (root / name).mkdir()
    with ExitStack() as stack:
        if request.param == "volume":
            done, again = migrate("run", origin, root / "target", "--no-cutover"), migrate("copy", origin, root / "target")
            goal = stack.enter_context(Gateway(root / "target").start(root / "log"))
        else:
            goal = stack.enter_context(Minio(root / "target").start(root / "log"))
            done = migrate("run", origin, goal, "--state-dir", str(root / "state"))
            # Nothing is known of the first run here: two listings alone decide.
            again = migrate("copy", origin, goal, "--state-dir", str(root / "other-state"))
        yield Copied(request.param, origin, goal, done.stdout + done.stderr, again.stdout + again.stderr)
    shutil.rmtree(root)


def test_content_types_are_those_of_the_source(copied):
    for key, kind in TYPES.items():
        assert copied.head(key)["ContentType"] == kind, key
    assert copied.head("m01/absent")["ContentType"] == copied.source.head_object(Bucket="data", Key="m01/absent")["ContentType"] == "binary/octet-stream"


def test_user_metadata_is_equal(copied):
    found = copied.head("m02/all")["Metadata"]
    assert {name.lower(): value for name, value in found.items()} == {name.lower(): value for name, value in METADATA.items()}


def test_large_objects_keep_everything(copied):
    for size, parts in SIZES.items():
        for form in ("whole", "parts"):
            key = f"m03/{form}-{size}"
            head = copied.head(key)
            told = {name.lower(): value for name, value in head["Metadata"].items()}
            assert (head["ContentType"], head["CacheControl"], told) == ("image/tiff", "no-store", {"size": str(size), "name": "a b"}), key
            etag = multipart_etag(large(size), PART) if form == "parts" else hashlib.md5(large(size)).hexdigest()
            assert head["ETag"] == f'"{etag}"', key
            assert copied.body(key) == large(size), key
            tags = copied.target.get_object_tagging(Bucket="data", Key=key)["TagSet"]
            assert tags == [{"Key": "size", "Value": str(size)}], key
        if parts > 1:
            last = copied.target.head_object(Bucket="data", Key=f"m03/parts-{size}", PartNumber=parts)
            assert (last["PartsCount"], last["ContentLength"]) == (parts, size - PART * (parts - 1)), size


def test_system_headers_travel_with_user_metadata(copied):
    head = copied.head("m04/user-metadata-alone")
    assert (head["ContentType"], head["Metadata"]) == ("image/png", {"k": "v"})
    for answer in (copied.head("m06/all"), copied.target.get_object(Bucket="data", Key="m06/all")):
        found = {name: answer["ExpiresString" if name == "Expires" else name] for name in HEADERS}
        assert found == HEADERS
        assert answer["Metadata"] == {"beside": "them"}


def test_tag_sets_are_equal(copied):
    expected = {"m05/two": {"stage": "prod", "project": "a b+c"}, "m05/most": {f"key{n}": f"value{n}" for n in range(10)}, "m05/none": {}}
    for key, tags in expected.items():
        assert {tag["Key"]: tag["Value"] for tag in copied.target.get_object_tagging(Bucket="data", Key=key)["TagSet"]} == tags, key


def test_times_stay_or_the_plan_says_that_they_cannot(copied):
    times = lambda client: {entry["Key"]: entry["LastModified"].replace(microsecond=0) for page in client.get_paginator("list_objects_v2").paginate(Bucket="data") for entry in page["Contents"]}  # noqa: E731
    if copied.kind == "volume":
        assert times(copied.target) == times(copied.source)
    else:
        assert "Last-Modified cannot be kept" in copied.told, copied.told
    for key in ("m01/absent", f"m03/parts-{3 * PART}"):
        assert not any("mtime" in name.lower() for name in copied.head(key)["Metadata"]), key


def test_every_name_arrives_as_it_was(copied):
    assert keys(copied.target, "data") == keys(copied.source, "data")
    for key in [*NAMES, *ENCODED, COMPOSED, DECOMPOSED]:
        assert copied.body(key) == key.encode(), repr(key)
    assert COMPOSED != DECOMPOSED and len({copied.body(key) for key in ENCODED}) == len(ENCODED)


def test_directory_objects_keep_type_and_metadata(copied):
    listed = keys(copied.target, "data", Prefix="k04/")
    assert listed == ["k04/", "k04/empty/", "k04/sub/", "k04/sub/child"]
    for key, kind in DIRECTORIES.items():
        head = copied.head(key)
        assert (head["ContentType"], head["Metadata"], head["ContentLength"]) == (kind, {"of": key}, 0), key
    assert copied.body("k04/sub/child") == b"k04/sub/child"


def test_empty_objects_arrive_and_nothing_is_copied_twice(copied):
    for key, size in {"k05/empty": 0, "k05/empty-with-type": 0, "k05/empty-in-parts": 0, "k05/one": 1}.items():
        assert copied.head(key)["ContentLength"] == size, key
    assert copied.head("k05/empty-with-type")["ContentType"] == "text/plain"
    assert "copied 0 new and 0 changed objects" in copied.again, copied.again


RECIPE = re.compile(r"<!-- digest of a listing -->\n+```python\n(.*?)```", re.DOTALL)


def test_the_digest_can_be_recomputed_from_a_listing(copied, tmp_path):
    """By the recipe of the documentation, which knows S3 and nothing of ours, on each side."""
    script = tmp_path / "digest.py"
    script.write_text(RECIPE.search((Path(__file__).parent.parent / "docs/migration.md").read_text()).group(1))
    told = re.search(r"^digest ([0-9a-f]{64})$", copied.told, re.MULTILINE).group(1)
    for server in (copied.origin, copied.goal):
        environment = {"PATH": os.environ["PATH"], "AWS_ACCESS_KEY_ID": server.access, "AWS_SECRET_ACCESS_KEY": server.secret, "AWS_DEFAULT_REGION": server.region}
        done = subprocess.run([sys.executable, str(script), server.endpoint], env=environment, capture_output=True, text=True, timeout=60)
        assert (done.stdout.strip(), done.returncode) == (told, 0), f"{server.name}: {done.stderr}"


def certificate(directory: Path) -> Path:
    """An authority and a certificate of it for 127.0.0.1, as MinIO looks for it; returns the authority."""
    directory.mkdir(parents=True)
    openssl = lambda *arguments: subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)  # noqa: E731
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority", "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", "-x509", *new_key, "-keyout", "private.key", "-out", "public.crt", "-subj", "/CN=minio", "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1")
    # MinIO takes every .crt and .pem in `CAs` alone; these two stay where it does not look.
    return directory / "ca.pem"


def test_an_object_with_a_customer_key_is_named_and_the_rest_is_copied(fleet):
    authority = certificate(fleet.root / "log/certs")
    minio = fleet._start(TlsMinio(fleet.directory("drive")))
    client = boto3.client("s3", endpoint_url=minio.endpoint, aws_access_key_id=minio.access, aws_secret_access_key=minio.secret, region_name=minio.region, verify=str(authority))
    client.create_bucket(Bucket="data")
    for n in range(99):
        client.put_object(Bucket="data", Key=f"open/{n:02d}", Body=f"{n}".encode())
    client.put_object(Bucket="data", Key="locked", Body=b"secret", SSECustomerAlgorithm="AES256", SSECustomerKey="k" * 32)
    volume = fleet.directory("volume")
    refused = migrate("run", minio, volume, "--wait", "0", code=None)
    assert refused.returncode != 0 and "ertificate" in refused.stderr and not (volume / "s3").exists(), refused.stderr
    report = fleet.root / "report"
    done = migrate("run", minio, volume, "--from-ca", str(authority), "--report", str(report), code=1)
    told = done.stdout + done.stderr
    failures = [line for line in map(json.loads, report.read_text().splitlines()) if line["outcome"] == "failed"]
    assert {line["object"] for line in failures} == {"data/locked"}
    assert "encrypted with a key that only its owner has" in told and "400" in failures[0]["error"] and "attempts" not in failures[0]["error"], told
    assert sum(path.is_file() for path in (volume / "s3/data").rglob("*")) == 99
    assert marker(volume)["state"] == "copying"


@pytest.fixture
def open_ground():
    """A directory that every uid can reach, unlike the usual temporary ones."""
    root = Path(tempfile.mkdtemp(prefix="filestore-e2e-"))
    root.chmod(0o755)
    mounted: list[Path] = []
    yield root, mounted
    for path in reversed(mounted):
        subprocess.run(["umount", "--lazy", str(path)], check=True)
    shutil.rmtree(root)


def mount_bound(what: Path, where: Path, mounted: list[Path], *options: str) -> None:
    subprocess.run(["mount", "--bind", str(what), str(where)], check=True)
    mounted.append(where)
    if options:
        subprocess.run(["mount", "-o", f"remount,bind,{','.join(options)}", str(where)], check=True)


def everything(root: Path) -> dict:
    """Owner, mode, size and all times of a tree. Read beforehand once, so that looking changes nothing."""
    told = lambda path: (lambda s: (s.st_mode, s.st_uid, s.st_gid, s.st_size, s.st_atime_ns, s.st_mtime_ns, s.st_ctime_ns))(path.lstat())  # noqa: E731
    return {str(path): told(path) for path in [root, *sorted(root.rglob("*"))]}


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_private_drive_is_read_as_its_owner_alone(fleet, open_ground):
    """As an init container runs it: by the uid of the legacy pod, from its volume mounted read-only."""
    root, mounted = open_ground
    minio = fleet.minio(root / "drive")
    client = boto(minio)
    client.create_bucket(Bucket="data")
    for key, size in {"a/inline": 1000, "a/file": 2 * MIB + 1, "b": 0}.items():
        client.put_object(Bucket="data", Key=key, Body=pattern(size), Metadata={"k": key})
    expected = snapshot(client)
    minio.stop()
    for path in [root / "drive", *(root / "drive").rglob("*")]:
        os.chown(path, 1200, 1200)
        path.chmod(0o700 if path.is_dir() else 0o600)
    aged(root / "drive")
    program, drive, volume = root / "filestore", root / "legacy", root / "volume"
    program.touch()
    mount_bound(Path(binary()).resolve(), program, mounted)
    drive.mkdir(mode=0o700)
    mount_bound(root / "drive", drive, mounted, "ro")
    assert os.statvfs(drive).f_flag & os.ST_RDONLY

    def run_as(uid: int, target: Path) -> subprocess.CompletedProcess:
        target.mkdir()
        os.chown(target, uid, uid)
        command, environment = migrate_command("run", drive, target)
        return subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", str(program), *command[1:]], env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, cwd="/")

    everything(root / "drive")
    before = everything(root / "drive")
    stranger = run_as(1300, root / "another-volume")
    assert stranger.returncode != 0 and "uid 1200" in stranger.stderr and "run as that user or as root" in stranger.stderr, stranger.stderr
    assert not (root / "another-volume/.filestore/migration.json").exists() and not list((root / "another-volume").glob("s3/*"))
    owner = run_as(1200, volume)
    assert owner.returncode == 0, owner.stderr
    assert everything(root / "drive") == before
    assert {path.stat().st_uid for path in (volume / "s3").rglob("*")} == {1200}
    assert snapshot(boto(fleet.gateway(volume))) == expected


SINGLE = {"version": "1", "format": "xl-single", "id": "x", "xl": {"version": "3", "this": "a", "sets": [["a"]], "distributionAlgo": "SIPMOD+PARITY"}}
FORMATS = {
    "none": (None, "no .minio.sys/format.json"),
    "file-mode": ({"version": "1", "format": "fs", "id": "x", "fs": {"version": "2"}}, "FS mode"),
    "erasure-set": (SINGLE | {"format": "xl", "xl": {"version": "3", "this": "a", "sets": [["a", "b", "c", "d"]]}}, "one of 4 drives in 1 erasure set"),
}


@pytest.mark.parametrize("case", FORMATS)
def test_drives_of_other_formats_are_refused_with_what_to_do(fleet, case):
    """Their files may look fine: without MinIO's own records nobody knows what they are."""
    written, told = FORMATS[case]
    drive, volume = fleet.directory("drive"), fleet.directory("volume")
    (drive / "data").mkdir()
    (drive / "data/file").write_text("looks fine")
    if written is not None:
        (drive / ".minio.sys").mkdir()
        (drive / ".minio.sys/format.json").write_text(json.dumps(written))
    for verb in ("plan", "run"):
        done = migrate(verb, drive, volume, code=5)
        assert told in done.stderr and ("online source" in done.stderr or "directory that MinIO was started on" in done.stderr), done.stderr
    assert not list(volume.glob("s3/*")) and not (volume / ".filestore/migration.json").exists()


def test_objects_of_the_oldest_format_are_named_with_what_to_do(fleet):
    drive, volume = fleet.directory("drive"), fleet.directory("volume")
    (drive / ".minio.sys").mkdir()
    (drive / ".minio.sys/format.json").write_text(json.dumps(SINGLE))
    (drive / "data/old/object").mkdir(parents=True)
    (drive / "data/old/object/xl.json").write_text(json.dumps({"version": "1.0.1", "format": "xl"}))
    aged(drive)
    plan = migrate("plan", drive, volume, code=1).stdout
    assert "unsupported: 1" in plan and "data/old/object" in plan, plan
    done = migrate("run", drive, volume, code=1)
    assert "data/old/object" in done.stdout + done.stderr
    assert marker(volume)["state"] == "copying"


EDGES = (0, 1, 100, 16 * KIB, 128 * KIB, MIB, 2 * MIB)


def play(client, chance: random.Random, count: int) -> None:
    """Writes, overwrites, copies, deletes and versions, in sizes around the edges of MinIO's blocks."""
    client.create_bucket(Bucket="plain")
    client.create_bucket(Bucket="versions")
    client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    for n in range(count):
        bucket = chance.choice(("plain", "versions"))
        # Few names, so that there is something to overwrite. No name is a prefix of another: MinIO hides those.
        key = "/".join(("d%d" % chance.randrange(3), "f%d" % chance.randrange(max(count // 4, 8))))
        extra = {"ContentType": chance.choice(("text/plain", "image/png", "application/json")), "Metadata": {"n": str(n)}}
        if chance.random() < 0.3:
            extra["Tagging"] = f"n={n}"
        size = max(0, chance.choice(EDGES) + chance.randint(-2, 2))
        body = large(3 * MIB)[13 * n:][:size] if chance.random() < 0.5 else chance.randbytes(size)
        match chance.choice(("put", "put", "put", "put", "put", "parts", "copy", "delete")):
            case "put":
                client.put_object(Bucket=bucket, Key=key, Body=body, **extra)
            case "parts":
                put_multipart(client, bucket, key, body * 3 if chance.random() < 0.3 else large(PART + MIB)[13 * n:][:PART] + body, PART, **extra)
            case "copy":
                there = keys(client, bucket)
                if there:
                    client.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": chance.choice(there)}, MetadataDirective="REPLACE", **{k: v for k, v in extra.items() if k != "Tagging"})
            case "delete":
                client.delete_object(Bucket=bucket, Key=key)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_whatever_minio_wrote_is_read_back_from_its_drive(fleet, request, compressed):
    rounds = request.config.getoption("--soak")
    seeds = [20261130 + compressed] if rounds == 1 else [random.randrange(1 << 32) for _ in range(rounds)]
    for seed in seeds:
        environment = {"MINIO_COMPRESSION_ENABLE": "on", "MINIO_COMPRESSION_MIME_TYPES": "*"} if compressed else {}
        minio = fleet.minio(fleet.directory(f"drive-{seed}"), **environment)
        play(boto(minio), random.Random(seed), 60 if rounds == 1 else 300)
        expected = snapshot(boto(minio))
        minio.stop()
        aged(minio.directory)
        volume = fleet.directory(f"volume-{seed}")
        migrate("run", minio.directory, volume, "--verify", "bytes")
        with Gateway(volume).start(fleet.root / "log") as gateway:
            found = snapshot(boto(gateway))
        assert {b: sorted(o) for b, o in found.items()} == {b: sorted(o) for b, o in expected.items()}, f"seed {seed}"
        for bucket, objects in expected.items():
            for key, told in objects.items():
                assert found[bucket][key] == told, f"seed {seed}: {bucket}/{key}"
        shutil.rmtree(minio.directory)
        shutil.rmtree(volume)

"""What `migrate plan` says before anything is copied: found on real servers, and true of the copy that follows."""

import base64
import json
import os
import subprocess
import time
from pathlib import Path

import boto3
import pytest
from minio import MinioAdmin
from minio.credentials import StaticProvider

from harness.cli import marker, migrate
from harness.proxy import Proxy
from harness.s3 import boto, keys, pattern
from harness.servers import TlsMinio

POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::settings/*"]}]}


def plan(source, target, *arguments: str, code: int | None = 0) -> dict:
    return json.loads(migrate("plan", source, target, "--json", *arguments, code=code).stdout)


def untouched(volume: Path) -> bool:
    """No object, no bucket, no marker: nothing but, perhaps, the layout of an empty volume."""
    return not any(volume.glob("s3/*")) and not (volume / ".filestore/migration.json").exists()


def aged(drive: Path) -> Path:
    """The drive of a MinIO that was stopped an hour ago, which nobody needs to watch for signs of life."""
    for path in (drive / ".minio.sys").rglob("*"):
        if path.is_dir():
            os.utime(path, (time.time() - 3600,) * 2)
    os.utime(drive / ".minio.sys", (time.time() - 3600,) * 2)
    return drive


def versioned(client, bucket: str) -> None:
    """Three versions of `v`, and `d` behind a delete marker."""
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for size in (1000, 2000, 30):
        client.put_object(Bucket=bucket, Key="v", Body=pattern(size))
    client.put_object(Bucket=bucket, Key="d", Body=b"x" * 500)
    client.delete_object(Bucket=bucket, Key="d")


def test_versions_and_delete_markers_are_counted_and_refused_on_request(fleet):
    minio = fleet.minio()
    versioned(boto(minio), "versioned")
    volume = fleet.directory("volume")
    for source in ("online", "offline"):
        origin = minio if source == "online" else minio.directory
        left = plan(origin, volume)["notCarried"]
        # Two of `v`, one of `d`; the bytes of all three.
        assert (left["noncurrentVersions"]["count"], left["noncurrentVersions"]["bytes"]) == (3, 3500), source
        assert left["deleteMarkers"] == {"count": 1, "examples": ["versioned/d"]}, source
        for verb in ("plan", "copy", "final", "run"):
            refused = migrate(verb, origin, volume, "--fail-on-versions", code=5)
            assert "4 noncurrent versions and delete markers" in refused.stdout + refused.stderr
        assert untouched(volume), "refused before anything was written"
        minio.stop()
    migrate("run", aged(minio.directory), volume)
    client = boto(fleet.gateway(volume))
    assert keys(client, "versioned") == ["v"]
    assert client.get_object(Bucket="versioned", Key="v")["Body"].read() == pattern(30)


def test_every_setting_is_named_as_carried_or_not(fleet):
    kms = base64.b64encode(bytes(32)).decode()
    minio = fleet.minio(MINIO_KMS_SECRET_KEY=f"key:{kms}", MINIO_NOTIFY_WEBHOOK_ENABLE_HOOK="on", MINIO_NOTIFY_WEBHOOK_ENDPOINT_HOOK="http://127.0.0.1:9/", MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_HOOK=str(fleet.directory("queue")))
    client = boto(minio)
    client.create_bucket(Bucket="settings", ObjectLockEnabledForBucket=True)  # switches versioning on as well
    client.create_bucket(Bucket="plain")
    client.put_bucket_tagging(Bucket="settings", Tagging={"TagSet": [{"Key": "team", "Value": "data"}]})
    client.put_bucket_policy(Bucket="settings", Policy=json.dumps(POLICY))
    client.put_bucket_lifecycle_configuration(Bucket="settings", LifecycleConfiguration={"Rules": [{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 7}}]})
    client.put_bucket_encryption(Bucket="settings", ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]})
    client.put_bucket_notification_configuration(Bucket="settings", NotificationConfiguration={"QueueConfigurations": [{"QueueArn": "arn:minio:sqs::HOOK:webhook", "Events": ["s3:ObjectCreated:*"]}]})
    admin = MinioAdmin(endpoint=minio.host, credentials=StaticProvider(minio.access, minio.secret), secure=False)
    admin.bucket_quota_set("settings", 1 << 30)
    admin.user_add("someone", "a-long-secret")

    found = plan(minio, fleet.directory("volume"))
    told = {(s["bucket"], s["setting"]): s["carried"] for s in found["settings"]}
    expected = {"tags": True, "policy": False, "lifecycle": False, "encryption": False, "notification": False, "object lock": False, "versioning Enabled": False}
    assert told == {("settings", name): carried for name, carried in expected.items()}
    # What only MinIO's admin API shows is said to be out of sight.
    assert any("quotas" in text for text in found["sourceAbout"]["notVisible"])
    assert any("users" in text for text in found["sourceAbout"]["notVisible"])
    text = migrate("plan", minio, fleet.directory("volume")).stdout
    for name in ("settings: policy", "settings: lifecycle", "settings: notification", "carried bucketSettings: 1 (settings: tags)", "unseen  users"):
        assert name in text, text

    # The drive itself shows them all; users lie encrypted there and are counted.
    minio.stop()
    found = plan(minio.directory, fleet.directory("volume"))
    told = {s["setting"]: s["carried"] for s in found["settings"]}
    expected = {"tags": True, "policy": False, "lifecycle": False, "encryption": False, "notification": False, "object lock": False, "versioning": False, "quota": False}
    assert told == expected
    assert found["notCarried"]["users"]["count"] >= 1

    # And the copy keeps the one that travels.
    volume = fleet.directory("volume")
    migrate("run", aged(minio.directory), volume)
    copied = boto(fleet.gateway(volume))
    assert copied.get_bucket_tagging(Bucket="settings")["TagSet"] == [{"Key": "team", "Value": "data"}]
    assert marker(volume)["notCarried"]["bucketSettings"]["count"] == len(expected) - 1


def test_settings_that_a_volume_keeps_and_does_not_carry_are_named(fleet):
    """Our gateway makes none of them; versitygw does, on the same volume."""
    volume = fleet.directory("volume")
    gateway = fleet.gateway(volume)
    boto(gateway).create_bucket(Bucket="plain")
    gateway.stop()
    versitygw = fleet.versitygw(volume / "s3")
    client = boto(versitygw)
    client.create_bucket(Bucket="settings", ObjectLockEnabledForBucket=True, ObjectOwnership="BucketOwnerPreferred")
    client.put_bucket_tagging(Bucket="settings", Tagging={"TagSet": [{"Key": "team", "Value": "data"}]})
    client.put_bucket_policy(Bucket="settings", Policy=json.dumps(POLICY))
    client.put_bucket_cors(Bucket="settings", CORSConfiguration={"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]})
    client.put_bucket_acl(Bucket="settings", ACL="public-read")
    client.put_object(Bucket="settings", Key="k", Body=b"x")
    client.create_multipart_upload(Bucket="settings", Key="begun")
    versitygw.stop()

    target = fleet.directory("target")
    found = plan(f"volume:{volume}", target)
    told = {(s["bucket"], s["setting"]): s["carried"] for s in found["settings"]}
    named = {"tags": True} | dict.fromkeys(("policy", "CORS", "ACL", "object lock", "ownership BucketOwnerPreferred"), False)
    assert told == {("settings", name): carried for name, carried in named.items()}
    assert found["notCarried"]["unfinishedUploads"] == {"count": 1, "examples": ["settings/begun"]}
    assert any("versions" in text and "users" in text for text in found["sourceAbout"]["notVisible"])
    # Another policy is another list.
    versitygw.start()
    client.put_bucket_policy(Bucket="settings", Policy=json.dumps(POLICY).replace("GetObject", "PutObject"))
    versitygw.stop()
    assert plan(f"volume:{volume}", target)["notCarriedHash"] != found["notCarriedHash"]


def test_the_list_of_what_stays_behind_is_accepted_by_its_hash(fleet):
    minio = fleet.minio()
    client = boto(minio)
    client.create_bucket(Bucket="data")
    client.put_object(Bucket="data", Key="good", Body=b"good")
    versioned(client, "versioned")
    minio.stop()
    # A damaged object cannot be carried by anybody.
    (minio.directory / "data/broken").mkdir()
    (minio.directory / "data/broken/xl.meta").write_bytes(b"XL2 nothing that can be read")
    volume = fleet.directory("volume")
    first = plan(minio.directory, volume, code=1)
    assert first["losses"] == 1 and first["verdict"]["exit"] == 1
    accepted = first["notCarriedHash"]
    assert plan(minio.directory, volume, code=1)["notCarriedHash"] == accepted, "the same list has the same hash"
    assert plan(minio.directory, volume, "--accept", accepted)["verdict"]["exit"] == 0

    # One more thing stays behind: what was accepted is not what would happen.
    (minio.directory / "data/rotten").mkdir()
    (minio.directory / "data/rotten/xl.meta").write_bytes(b"XL2 neither")
    for verb in ("plan", "copy", "final", "run"):
        refused = migrate(verb, minio.directory, volume, "--accept", accepted, code=5)
        assert accepted in refused.stdout + refused.stderr
    assert untouched(volume)
    second = plan(minio.directory, volume, code=1)["notCarriedHash"]
    assert second != accepted
    migrate("run", aged(minio.directory), volume, "--accept", second, "--accepted-by", "Ada")
    told = marker(volume)
    assert (told["state"], told["acceptedBy"], told["notCarriedHash"]) == ("cutover", f"--accept {second} by Ada", second)
    assert keys(boto(fleet.gateway(volume)), "data") == ["good"]


def odd(client) -> None:
    """Keys that MinIO takes and a plain tree of files does not."""
    client.create_bucket(Bucket="odd")
    put = lambda key, body: client.put_object(Bucket="odd", Key=key, Body=body)  # noqa: E731
    put("dir/", b"with a body!")
    put("dir/child", b"child")
    put("servers/0", b"below")
    put("servers", b"above")  # hides the line before from MinIO's own listings
    put("empty/", b"")
    put("plain", b"plain")


def test_keys_that_another_server_cannot_hold_are_named_before_any_copy(fleet):
    minio = fleet.minio()
    odd(boto(minio))
    minio.stop()
    other = fleet.versitygw(fleet.directory("other"))
    found = plan(minio.directory, other, code=1)
    assert found["targetAbout"]["server"] == "VERSITYGW"
    lost = found["notCarried"]["unnameable"]
    assert lost["count"] == 2
    assert any("odd/dir/" in name and "body" in name for name in lost["examples"]), lost
    # Both keys of the pair are named.
    assert any("odd/servers/0" in name and "below the object servers;" in name for name in lost["examples"]), lost
    assert not boto(other).list_buckets()["Buckets"], "nothing was written"

    state = str(fleet.directory("state"))
    done = migrate("run", aged(minio.directory), other, "--state-dir", state, code=1)
    assert "servers/0" in done.stdout and found["notCarriedHash"], done.stdout
    assert keys(boto(other), "odd") == ["dir/child", "empty/", "plain", "servers"], "the rest is there"
    migrate("run", aged(minio.directory), other, "--state-dir", state, "--accept", found["notCarriedHash"])
    assert json.loads((Path(state) / "migration.json").read_text())["state"] == "cutover"

    # Our own volume takes them all, and says which ones lie apart.
    volume = fleet.directory("volume")
    found = plan(minio.directory, volume)
    assert found["losses"] == 0 and found["apart"]["count"] == 2, found["apart"]
    migrate("run", aged(minio.directory), volume)
    ours = boto(fleet.gateway(volume))
    assert keys(ours, "odd") == ["dir/", "dir/child", "empty/", "plain", "servers", "servers/0"]
    assert ours.get_object(Bucket="odd", Key="servers/0")["Body"].read() == b"below"


def test_long_segments_are_told_before_a_copy(fleet):
    """Our gateway takes a name of 256 bytes; MinIO and versitygw do not."""
    gateway = fleet.gateway()
    client = boto(gateway)
    client.create_bucket(Bucket="long")
    long = "\u00e9" * 128
    for key in (f"{long}/x", f"{long[:-1]}/x"):
        client.put_object(Bucket="long", Key=key, Body=b"x")
    for other in (fleet.minio(), fleet.versitygw(fleet.directory("other"))):
        found = plan(gateway, other, code=1)
        assert found["create"] == 1
        assert found["notCarried"]["unnameable"]["count"] == 1
        assert "KeyTooLong" in found["notCarried"]["unnameable"]["examples"][0]
        done = migrate("copy", gateway, other, code=1)
        assert "KeyTooLong" in done.stdout
        assert keys(boto(other), "long") == [f"{long[:-1]}/x"]
    found = plan(gateway, fleet.directory("new"))
    assert found["losses"] == 0 and found["apart"]["count"] == 1


def test_both_sides_say_who_and_when_they_are(fleet):
    minio = fleet.minio(MINIO_SITE_REGION="eu-paris-1")
    minio.region = "eu-paris-1"
    boto(minio).create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "eu-paris-1"})
    with Proxy(minio, skew=-400) as late:
        found = plan(late, fleet.gateway())
    source, target = found["sourceAbout"], found["targetAbout"]
    assert (source["server"], source["region"]) == ("MinIO", "eu-paris-1")
    assert -402 <= source["clockSkewSeconds"] <= -398
    assert target["server"].startswith("Filestore") and abs(target["clockSkewSeconds"]) <= 2
    assert any("clock of the source is" in note and "behind" in note for note in found["notes"]), found["notes"]


def test_objects_that_only_their_owner_can_read_are_seen_in_the_plan(fleet, tmp_path):
    certificates = fleet.root / "log/certs"
    certificates.mkdir(parents=True)
    certificate = certificates / "public.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=minio", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(certificates / "private.key"), "-out", str(certificate)], check=True, capture_output=True)
    minio = fleet._start(TlsMinio(fleet.directory("drive")))
    client = boto3.client("s3", endpoint_url=minio.endpoint, aws_access_key_id=minio.access, aws_secret_access_key=minio.secret, region_name=minio.region, verify=str(certificate))
    client.create_bucket(Bucket="data")
    for number in range(5):
        client.put_object(Bucket="data", Key=str(number), Body=b"plain")
    client.put_object(Bucket="data", Key="secret", Body=b"secret", SSECustomerAlgorithm="AES256", SSECustomerKey="k" * 32)
    volume = fleet.directory("volume")
    found = plan(minio, volume, "--from-ca", str(certificate), code=1)
    assert found["unreadable"]["count"] == 1 and "data/secret" in found["unreadable"]["examples"][0], found["unreadable"]
    assert found["estimate"]["sampledObjects"] == 5
    # As the copy finds it to be.
    done = migrate("copy", minio, volume, "--from-ca", str(certificate), code=1)
    assert "data/secret" in done.stderr and "copied 5 new" in done.stdout


def test_the_time_is_estimated_from_objects_that_were_read(fleet):
    minio = fleet.minio()
    client = boto(minio)
    client.create_bucket(Bucket="data")
    for number in range(100):
        client.put_object(Bucket="data", Key=f"{number:03d}", Body=pattern(1000))
    volume = fleet.directory("volume")
    estimate = plan(minio, volume)["estimate"]
    assert (estimate["sampledObjects"], estimate["sampledBytes"]) == (64, 64_000)
    assert "an estimate: 64 objects" in migrate("plan", minio, volume).stdout
    assert plan(minio, volume, "--measure", "0")["estimate"] is None
    migrate("run", minio, volume)
    after = plan(minio, volume)
    assert after["estimate"] is None and after["skip"] == 100
    assert after["migration"] == "cutover" and after["verdict"]["exit"] == 0


def test_room_is_what_the_file_system_has(tmp_path, fleet):
    """On a file system with few files left the plan says so; the copy does not begin."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=100", "tmpfs", str(small)], check=True)
    try:
        minio = fleet.minio()
        client = boto(minio)
        client.create_bucket(Bucket="data")
        for number in range(60):
            client.put_object(Bucket="data", Key=f"directory-{number}/object", Body=b"x")
        found = plan(minio, small, code=5)
        # An object and its directory each, and the bucket.
        assert found["room"]["neededInodes"] == 121 and found["room"]["availableInodes"] < 100
        refused = migrate("run", minio, small, code=5)
        assert "files are needed" in refused.stderr
        assert untouched(small)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_metadata_that_a_volume_cannot_keep_is_named_with_its_limit(tmp_path, fleet):
    """ext4 has one block for the attributes of a file: MinIO takes metadata and tags that do not fit."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    image, volume = tmp_path / "ext4", tmp_path / "mounted"
    volume.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-b", "4096", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(volume)], check=True)
    try:
        minio = fleet.minio()
        client = boto(minio)
        client.create_bucket(Bucket="data")
        metadata = {"k" * 250: "v" * 1700}
        tags = "&".join(f"{n}{'k' * 127}={'v' * 256}" for n in range(10))
        client.put_object(Bucket="data", Key="fits", Body=b"1", Metadata=metadata)
        client.put_object(Bucket="data", Key="too-much", Body=b"2", Metadata=metadata, Tagging=tags)
        client.put_object(Bucket="data", Key="zz", Body=b"3")
        # MinIO shows metadata in its listing, when it is asked to: the plan knows.
        found = plan(minio, volume, code=1)
        assert any("4000 bytes" in note for note in found["notes"])
        assert found["oversized"]["count"] == 1 and "data/too-much (" in found["oversized"]["examples"][0]
        report = tmp_path / "report.jsonl"
        done = migrate("run", minio, volume, "--report", str(report), code=1)
        assert "put data/too-much: " in done.stderr and "4096" in done.stderr, done.stderr
        failed = [line for line in map(json.loads, report.read_text().splitlines()) if line["outcome"] == "failed"]
        assert {line["object"] for line in failed} == {"data/too-much"} and "4096" in failed[0]["error"]
        assert marker(volume)["state"] == "copying"
        copied = boto(fleet.gateway(volume))
        assert keys(copied, "data") == ["fits", "zz"]
        assert copied.head_object(Bucket="data", Key="fits")["Metadata"] == metadata
        fleet.stop()
        # And so does the drive.
        found = plan(minio.directory, volume, code=1)
        assert found["oversized"]["count"] == 1 and "data/too-much (" in found["oversized"]["examples"][0]
    finally:
        subprocess.run(["umount", str(volume)], check=True)


def files(directory: Path) -> dict:
    """All files below, with what would show that one was written."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in directory.rglob("*") if path.is_file()}


def test_a_store_that_was_rolled_back_is_planned_as_it_would_be_taken_over_again(fleet):
    minio = fleet.minio()
    legacy = boto(minio)
    legacy.create_bucket(Bucket="data")
    for key in ("same", "legacy-new", "legacy-gone", "served-new", "both"):
        legacy.put_object(Bucket="data", Key=key, Body=b"old")
    volume = fleet.directory("volume")
    migrate("run", minio, volume, "--id", "first")
    gateway = fleet.gateway(volume)
    for side in (legacy, boto(gateway)):
        side.put_object(Bucket="data", Key="both", Body=side.meta.endpoint_url.encode())
    gateway.stop()

    def would(*arguments: str, code: int) -> dict:
        before = files(volume)
        found = plan(minio, volume, *arguments, code=code)
        assert files(volume) == before, "written by a plan"
        assert found["verdict"]["exit"] == code
        return found

    def refused(*arguments: str) -> dict:
        (refusal,) = would(*arguments, code=5)["verdict"]["refusals"]
        # The same that a run says.
        told = migrate("run", minio, volume, *arguments, code=5).stderr
        assert refusal["problem"] in told and refusal["cure"] in told
        return refusal

    # On the way back it says how that ends, and that it can be given up.
    migrate("reverse", f"volume:{volume}", minio, "--complete", code=8)
    assert "--abandon" in refused()["cure"]
    migrate("reverse", f"volume:{volume}", minio, "--complete", "--prefer", "source")
    assert marker(volume)["state"] == "rolledBack"
    assert "run --again" in refused()["cure"]
    assert "the id of the run that was rolled back" in refused("--again", "--id", "first")["problem"]
    assert would("--again", code=0)["again"] == {"kept": 0, "undecided": {"count": 0, "examples": []}, "unknown": {"count": 0, "examples": []}}

    # Clients of both sides go on; of the volume one that missed the move back.
    legacy.put_object(Bucket="data", Key="legacy-new", Body=b"legacy client")
    legacy.put_object(Bucket="data", Key="legacy-added", Body=b"more")
    legacy.put_object(Bucket="data", Key="both", Body=b"legacy")
    legacy.delete_object(Bucket="data", Key="legacy-gone")
    other = fleet.versitygw(volume / "s3")
    for key in ("both", "served-new"):
        boto(other).put_object(Bucket="data", Key=key, Body=b"late")
    other.stop()
    for arguments in (("--again",), ("--again", "--id", "second"), ("--id", "second")):
        found = would(*arguments, code=8)
        assert (found["create"], found["replace"], found["delete"], found["copyBytes"]) == (1, 1, 1, 17), "what both changed is not among it"
        assert found["deleteExamples"] == ["data/legacy-gone"] and found["buckets"]["data"]["copy"] == 2
        assert found["again"]["kept"] == 1 and found["again"]["undecided"] == {"count": 1, "examples": ["data/both"]}
    text = migrate("plan", minio, volume, "--again", code=8).stdout
    for line in ("copy    1 new, 1 replaced, 17 B;", "delete  1 that went from the source: data/legacy-gone\n", "stay    1 that only clients", "OPEN    1 changed on both sides: data/both\n", "exit code 8: both sides changed 1 keys; decide with --prefer"):
        assert line in text, text
    assert (would("--again", "--max-delete", "0", code=5)["delete"], would("--again", "--prefer", "source", code=0)["replace"]) == (1, 2)

    # A round was made: what it left.
    migrate("copy", minio, volume, "--id", "second", code=8)
    assert "second" in refused("--id", "third")["problem"]
    found = would("--prefer", "source", code=0)
    assert (found["migration"], found["create"], found["replace"], found["delete"]) == ("copying", 0, 1, 1)
    assert "taking it over again would succeed" in migrate("plan", minio, volume, "--prefer", "source").stdout
    done = migrate("run", minio, volume, "--again", "--prefer", "source")
    assert "added 0, replaced 1, deleted 1" in done.stdout
    served = boto(fleet.gateway(volume))
    held = {key: served.get_object(Bucket="data", Key=key)["Body"].read() for key in keys(served, "data")}
    assert held == {"both": b"legacy", "legacy-added": b"more", "legacy-new": b"legacy client", "same": b"old", "served-new": b"late"}

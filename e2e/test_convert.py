"""`filestore volume convert` and `import-sidecar`: every object, header, tag and upload is the same before and after."""

import json
import random
import subprocess
import time

import pytest

from harness.cli import filestore
from harness.s3 import boto, keys, listing, snapshot
from harness.servers import binary, clean_environment
from test_interchange import as_both_see_it, fill, parts_and_sums
from test_kill import soak

ODD = ("w/folder/child/below", "w//double", "w/" + "k" * 300, "/lead", "w/deep/er")
OTHER = {"xattr": "sidecar", "sidecar": "xattr"}


def begin_upload(client) -> tuple[str, list[dict]]:
    upload = client.create_multipart_upload(Bucket="shared", Key="w/unfinished", Metadata={"k": "v"})["UploadId"]
    client.upload_part(Bucket="shared", Key="w/unfinished", UploadId=upload, PartNumber=1, Body=b"replaced")
    etags = [client.upload_part(Bucket="shared", Key="w/unfinished", UploadId=upload, PartNumber=n, Body=b"part" * size)["ETag"] for n, size in ((1, 2_000_000), (2, 10))]
    return upload, [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]


def told_of(client, upload: str) -> dict:
    """All that a store says: objects, listing, buckets, uploads."""
    listed = client.list_multipart_uploads(Bucket="shared")["Uploads"]
    parts = client.list_parts(Bucket="shared", Key="w/unfinished", UploadId=upload)["Parts"]
    return {"objects": snapshot(client), "listing": listing(client, "shared"), "sums": parts_and_sums(client, "shared", "w/"),
            "buckets": [(bucket["Name"], bucket["CreationDate"]) for bucket in client.list_buckets()["Buckets"]],
            "uploads": [(one["Key"], one["UploadId"], one["Initiated"]) for one in listed],
            "parts": [(one["PartNumber"], one["Size"], one["ETag"], one["LastModified"]) for one in parts]}


@pytest.mark.parametrize("first", ["xattr", "sidecar"])
def test_there_and_back(fleet, first):
    gateway = fleet.gateway(None, "--metadata", first)
    volume, client = gateway.directory, boto(gateway)
    client.create_bucket(Bucket="shared")
    client.create_bucket(Bucket="empty")
    client.put_bucket_tagging(Bucket="shared", Tagging={"TagSet": [{"Key": "site", "Value": "one"}]})
    fill(client, "shared", "w/")
    for key in ODD:
        client.put_object(Bucket="shared", Key=key, Body=key.encode(), Metadata={"odd": "yes"}, Tagging="o=1")
    upload, parts = begin_upload(client)
    before = told_of(client, upload)
    assert len(before["objects"]["shared"]) == 10 + len(ODD)

    refused = filestore("volume", "convert", str(volume), "--to", OTHER[first])
    assert refused.returncode == 5 and "in use by a gateway" in refused.stderr, refused.stderr
    gateway.stop()
    gateway.arguments = []
    looked = filestore("volume", "convert", str(volume), "--to", OTHER[first], "--dry-run")
    assert looked.returncode == 0 and "2 buckets, 15 objects, 0 files without metadata, 1 uploads with 2 parts" in looked.stdout, looked
    for mode in (OTHER[first], first):
        done = filestore("volume", "convert", str(volume), "--to", mode)
        assert done.returncode == 0 and f"converted from {OTHER[mode]} to {mode}: 2 buckets, 15 objects" in done.stdout, done
        again = filestore("volume", "convert", str(volume), "--to", mode)
        assert again.returncode == 0 and f"in {mode} mode already" in again.stdout, again
        gateway.start()
        assert told_of(client, upload) == before
        gateway.stop()
        if mode == "xattr":
            # And the other server, of those keys that it can see.
            other = fleet.versitygw(gateway.data_root)
            seen = as_both_see_it(snapshot(boto(other)))["shared"]
            assert seen == {key: told for key, told in as_both_see_it(before["objects"])["shared"].items() if key not in ODD}
            assert parts_and_sums(boto(other), "shared", "w/") == before["sums"]
            other.stop()
    gateway.start()
    client.complete_multipart_upload(Bucket="shared", Key="w/unfinished", UploadId=upload, MultipartUpload={"Parts": parts})
    assert client.get_object(Bucket="shared", Key="w/unfinished")["Body"].read() == b"part" * 2_000_010
    for key in keys(client, "shared"):
        client.delete_object(Bucket="shared", Key=key)
    client.delete_bucket(Bucket="shared")


def test_killed_at_any_moment(fleet, request):
    """SIGKILL while the program converts, to and fro: a gateway always serves everything, and a conversion that is run again ends."""
    gateway = fleet.gateway(None)
    volume, client = gateway.directory, boto(gateway)
    client.create_bucket(Bucket="shared")
    client.put_bucket_tagging(Bucket="shared", Tagging={"TagSet": [{"Key": "site", "Value": "one"}]})
    fill(client, "shared", "w/")
    for number in range(60):
        client.put_object(Bucket="shared", Key=f"w/{number}", Body=b"x", Metadata={"number": str(number)}, Tagging="o=1")
    for key in ODD:
        client.put_object(Bucket="shared", Key=key, Body=key.encode(), Metadata={"odd": "yes"})
    upload, _ = begin_upload(client)
    before = told_of(client, upload)
    gateway.stop()

    def mode() -> str:
        return json.loads((volume / ".filestore/volume.json").read_text())["metadata"]

    def command() -> list[str]:
        return [binary(), "volume", "convert", str(volume), "--to", OTHER[mode()]]

    started = time.monotonic()
    subprocess.run(command(), env=clean_environment(), stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    whole = time.monotonic() - started
    times, seed = soak(request)
    choose = random.Random(request.node.name + seed)
    killed = 0
    for _ in range(2 * times):
        for _ in range(8):
            process = subprocess.Popen(command(), env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            time.sleep(choose.uniform(0, whole))
            process.kill()
            killed += process.wait() < 0
        gateway.start()
        assert told_of(client, upload) == before
        gateway.stop()
    assert killed > 0
    for goal in (OTHER[mode()], mode()):
        done = filestore("volume", "convert", str(volume), "--to", goal)
        assert done.returncode == 0 and mode() == goal, done
        gateway.start()
        assert told_of(client, upload) == before
        gateway.stop()


@pytest.mark.parametrize("mode", ["xattr", "sidecar"])
def test_import_of_what_versitygw_kept_beside(fleet, mode):
    volume, beside = fleet.directory("volume"), fleet.directory("beside")
    (volume / "s3").mkdir()
    versitygw = fleet.versitygw(volume / "s3", VGW_META_SIDECAR=str(beside))
    client = boto(versitygw)
    client.create_bucket(Bucket="shared")
    client.put_bucket_tagging(Bucket="shared", Tagging={"TagSet": [{"Key": "site", "Value": "one"}]})
    fill(client, "shared", "w/")
    upload, parts = begin_upload(client)
    before, sums = as_both_see_it(snapshot(client)), parts_and_sums(client, "shared", "w/")
    versitygw.stop()
    assert len(before["shared"]) == 10

    looked = filestore("volume", "import-sidecar", str(volume), "--sidecar", str(beside), "--metadata", mode, "--dry-run")
    assert looked.returncode == 0 and "1 buckets, 10 objects, 0 files without metadata, 1 uploads with 2 parts" in looked.stdout, looked
    assert not (volume / ".filestore").exists()
    done = filestore("volume", "import-sidecar", str(volume), "--sidecar", str(beside), "--metadata", mode)
    assert done.returncode == 0 and f"in {mode} mode: 1 buckets, 10 objects" in done.stdout, done

    gateway = fleet.gateway(volume)
    client = boto(gateway)
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["shared"]
    assert as_both_see_it(snapshot(client)) == before
    assert parts_and_sums(client, "shared", "w/") == sums
    client.complete_multipart_upload(Bucket="shared", Key="w/unfinished", UploadId=upload, MultipartUpload={"Parts": parts})
    answer = client.get_object(Bucket="shared", Key="w/unfinished")
    assert answer["Body"].read() == b"part" * 2_000_010 and answer["Metadata"] == {"k": "v"}
    gateway.stop()
    if mode == "xattr":
        # Without its sidecar directory versitygw now serves the same.
        other = boto(fleet.versitygw(volume / "s3"))
        assert {key: told for key, told in as_both_see_it(snapshot(other))["shared"].items() if key != "w/unfinished"} == before["shared"]


def test_what_cannot_be_converted_is_said_in_one_line(fleet):
    gateway = fleet.gateway(None, "--metadata", "sidecar")
    client = boto(gateway)
    client.create_bucket(Bucket="shared")
    client.put_object(Bucket="shared", Key="large", Body=b"x", Metadata={"note": "n" * 1900}, CacheControl="c" * 3000)
    client.put_object(Bucket="shared", Key="small", Body=b"x")
    gateway.stop()
    identity = (gateway.directory / ".filestore/volume.json").read_bytes()
    done = filestore("volume", "convert", str(gateway.directory), "--to", "xattr")
    if done.returncode == 0:
        pytest.skip("this file system takes long attributes")
    assert done.returncode == 5 and len(done.stderr.splitlines()) == 1, done
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["! shared/large"], done
    assert (gateway.directory / ".filestore/volume.json").read_bytes() == identity

    empty = fleet.directory("empty")
    for arguments, text in ((("convert", str(empty), "--to", "xattr"), "is no volume"),
                            (("import-sidecar", str(gateway.directory), "--sidecar", str(empty)), "is no sidecar directory of versitygw")):
        done = filestore("volume", *arguments)
        assert done.returncode == 5 and text in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert list(empty.iterdir()) == []

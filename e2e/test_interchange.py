"""A volume written by versitygw is served by us, and ours by versitygw: same objects, same metadata, both ways."""

from datetime import datetime, timezone

import pytest

from harness.s3 import boto, keys, listing, pattern, put_multipart, snapshot

MIB = 1 << 20


def fill(client, bucket: str, prefix: str) -> None:
    """Objects of every kind that both can hold."""
    client.put_object(Bucket=bucket, Key=f"{prefix}plain", Body=pattern(70_000))
    client.put_object(Bucket=bucket, Key=f"{prefix}empty", Body=b"")
    client.put_object(Bucket=bucket, Key=f"{prefix}deep/er/full.csv", Body=b"x,y\n", ContentType="text/csv; charset=utf-8", CacheControl="max-age=60", ContentDisposition="attachment; filename=r.csv",
                      ContentEncoding="identity", ContentLanguage="fr", Expires=datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc), Metadata={"origin": "studio", "json": '[{"C":"D"}]'}, Tagging="a=1&b=x%20y")
    client.put_object(Bucket=bucket, Key=f"{prefix}unicode/caf\u00e9 +%41", Body=b"u")
    client.put_object(Bucket=bucket, Key=f"{prefix}folder/", Body=b"", ContentType="application/x-directory", Metadata={"of": "folder"})
    client.put_object(Bucket=bucket, Key=f"{prefix}folder/child", Body=b"c")
    client.put_object(Bucket=bucket, Key=f"{prefix}checksum", Body=b"with a checksum", ChecksumAlgorithm="SHA256")
    put_multipart(client, bucket, f"{prefix}multi", pattern(11 * MIB), 5 * MIB, ContentType="application/zip", Metadata={"kind": "multi"}, Tagging="m=1", CacheControl="no-store")
    client.copy_object(Bucket=bucket, Key=f"{prefix}copied", CopySource={"Bucket": bucket, "Key": f"{prefix}deep/er/full.csv"})
    client.put_object(Bucket=bucket, Key=f"{prefix}overwritten", Body=b"one", Metadata={"old": "1"})
    client.put_object(Bucket=bucket, Key=f"{prefix}overwritten", Body=b"two")
    client.put_object(Bucket=bucket, Key=f"{prefix}gone/for/good", Body=b"")
    client.delete_object(Bucket=bucket, Key=f"{prefix}gone/for/good")
    client.put_object_tagging(Bucket=bucket, Key=f"{prefix}plain", Tagging={"TagSet": [{"Key": "later", "Value": "yes"}]})


def as_both_see_it(told: dict) -> dict:
    """Without what differs by nature: to versitygw the time of `folder/` is that of the directory, which moves with its entries."""
    return {bucket: {key: {name: value for name, value in entry.items() if not (key.endswith("/") and name == "last_modified")} for key, entry in objects.items()}
            for bucket, objects in told.items()}


def parts_and_sums(client, bucket: str, prefix: str) -> dict:
    """What only some reads tell: parts of a multipart object, kept checksums, bucket tags."""
    part = client.head_object(Bucket=bucket, Key=f"{prefix}multi", PartNumber=2)
    return {"parts": (part["PartsCount"], part["ContentLength"]),
            "checksum": client.head_object(Bucket=bucket, Key=f"{prefix}checksum", ChecksumMode="ENABLED").get("ChecksumSHA256"),
            "tags": client.get_bucket_tagging(Bucket=bucket)["TagSet"]}


@pytest.mark.parametrize("writer", ["versitygw", "filestore"])
def test_written_by_one_and_served_by_the_other(fleet, writer):
    volume = fleet.directory("volume")
    (volume / "s3").mkdir()

    def serve(who):
        return fleet.gateway(volume, "--metadata", "xattr") if who == "filestore" else fleet.versitygw(volume / "s3")

    reader = {"versitygw": "filestore", "filestore": "versitygw"}[writer]
    first = serve(writer)
    client = boto(first)
    client.create_bucket(Bucket="shared")
    client.put_bucket_tagging(Bucket="shared", Tagging={"TagSet": [{"Key": "site", "Value": "one"}]})
    fill(client, "shared", "w/")
    before, told, listed = as_both_see_it(snapshot(client)), parts_and_sums(client, "shared", "w/"), [entry for entry in listing(client, "shared") if not entry[0].endswith("/")]
    upload = client.create_multipart_upload(Bucket="shared", Key="w/unfinished", Metadata={"k": "v"})["UploadId"]
    etag = client.upload_part(Bucket="shared", Key="w/unfinished", UploadId=upload, PartNumber=1, Body=b"first part")["ETag"]
    assert len(before["shared"]) == 10
    first.stop()

    second = serve(reader)
    client = boto(second)
    assert [b["Name"] for b in client.list_buckets()["Buckets"]] == ["shared"]
    assert as_both_see_it(snapshot(client)) == before
    assert parts_and_sums(client, "shared", "w/") == told
    assert [entry for entry in listing(client, "shared") if not entry[0].endswith("/")] == listed
    # The other goes on writing, also with the upload that was begun.
    client.complete_multipart_upload(Bucket="shared", Key="w/unfinished", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    client.delete_object(Bucket="shared", Key="w/plain")
    client.put_object(Bucket="shared", Key="w/empty", Body=b"no more")
    fill(client, "shared", "r/")
    after = as_both_see_it(snapshot(client))
    assert after["shared"]["w/unfinished"]["metadata"] == {"k": "v"}
    second.stop()

    third = serve(writer)
    client = boto(third)
    assert as_both_see_it(snapshot(client)) == after
    for key in keys(client, "shared"):
        client.delete_object(Bucket="shared", Key=key)
    client.delete_bucket(Bucket="shared")
    assert client.list_buckets()["Buckets"] == []


def test_versitygw_sees_no_file_of_ours(fleet):
    """What the gateway keeps for itself is beside the buckets, not among them; odd keys stay with us."""
    gateway = fleet.gateway(None, "--metadata", "xattr")
    client = boto(gateway)
    client.create_bucket(Bucket="one")
    for key in ("a", "a/b", "k" * 300, "x//y"):
        client.put_object(Bucket="one", Key=key, Body=key.encode())
    assert keys(client, "one") == sorted(["a", "a/b", "k" * 300, "x//y"])
    for key in keys(client, "one"):
        assert client.get_object(Bucket="one", Key=key)["Body"].read() == key.encode()
    gateway.stop()
    other = boto(fleet.versitygw(gateway.data_root))
    assert [b["Name"] for b in other.list_buckets()["Buckets"]] == ["one"]
    # Of a pair that a file tree cannot hold the first to come is the file.
    assert keys(other, "one") == ["a"]


def test_one_deployment_can_run_either(fleet):
    """The environment that versitygw's users set is enough to start us."""
    from harness.servers import Gateway, free_port

    class Drop(Gateway):
        def command(self):
            return [super().command()[0], "gateway", "--admin-listen", f"127.0.0.1:{self.admin_port}"]

    volume = fleet.directory("volume")
    gateway = Drop(volume)
    gateway.port, gateway.admin_port = free_port(), free_port()
    gateway.extra = {"VGW_BACKEND": "posix", "VGW_BACKEND_ARG": str(volume), "VGW_PORT": f":{gateway.port}", "VGW_REGION": "eu-paris-1", "VGW_KEEP_ALIVE": "true", "VGW_QUIET": "true"}
    fleet.servers.append(gateway)
    gateway.start(fleet.root / "log")
    client = boto(gateway)
    client.create_bucket(Bucket="one")
    client.put_object(Bucket="one", Key="k", Body=b"x")
    assert client.get_object(Bucket="one", Key="k")["Body"].read() == b"x"
    assert client.head_bucket(Bucket="one")["BucketRegion"] == "eu-paris-1"

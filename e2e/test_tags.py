"""Tags that changed without the object: listings of S3 show nothing of that, MinIO tells when it is asked, a drive always."""

import time

from harness.cli import migrate
from harness.counting import CountingProxy
from harness.s3 import boto, keys, pattern, put_multipart, snapshot
from harness.servers import Minio
from test_plan import aged
from test_reconcile import put

MIB = 1 << 20


def fill(legacy, tagging: str) -> None:
    """An object to tag, and others whose metadata must not look changed."""
    legacy.create_bucket(Bucket="data")
    put(legacy, "tagged", "same bytes", Tagging=tagging)
    put(legacy, "plain", "no type, no metadata")
    put(legacy, "described", "everything", ContentType="text/csv; charset=utf-8", CacheControl="max-age=60", ContentLanguage="fr", ContentEncoding="identity", ContentDisposition="attachment",
        Expires="Wed, 02 Jan 2030 03:04:05 GMT", Metadata={"Origin": "studio", "json": '[{"C":"D"}]'}, Tagging="z=1&a=2")
    put_multipart(legacy, "data", "multi", pattern(6 * MIB), 5 * MIB, ContentType="application/zip", Metadata={"kind": "multi"}, Tagging="m=1")


def tag_set(**tags: str) -> dict:
    return {"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]}


def test_the_final_pass_notices_them_on_a_running_minio(fleet):
    minio = fleet.minio()
    legacy = boto(minio)
    fill(legacy, "stage=test")
    for key in ("removed", "added", "swapped"):
        put(legacy, key, key, Tagging="" if key == "added" else "a=1&b=2")
    volume = fleet.directory("volume")
    migrate("copy", minio, volume)
    legacy.put_object_tagging(Bucket="data", Key="tagged", Tagging=tag_set(stage="late/alone: +"))
    legacy.put_object_tagging(Bucket="data", Key="added", Tagging=tag_set(d="4"))
    legacy.delete_object_tagging(Bucket="data", Key="removed")
    # A tag set has no order.
    legacy.put_object_tagging(Bucket="data", Key="swapped", Tagging=tag_set(b="2", a="1"))
    expected = snapshot(legacy)
    found = migrate("verify", minio, volume, "--report", str(fleet.root / "report"), code=3)
    assert "3 differ" in found.stdout, found.stdout
    assert (fleet.root / "report").read_text().count("tags or metadata differ") == 3
    assert "0 new, 3 replaced" in migrate("plan", minio, volume).stdout
    told = migrate("final", minio, volume)
    assert "0 new and 3 changed" in told.stdout, told.stdout
    gateway = fleet.gateway(volume)
    assert snapshot(boto(gateway)) == expected
    gateway.stop()
    # What the manifest knows of their metadata is whole: nothing looks changed afterwards.
    migrate("run", minio, volume)
    assert "0 added, 0 updated" in migrate("run", minio, volume).stdout


def test_unchanged_objects_cost_the_final_pass_listings_alone(fleet):
    minio = fleet.minio()
    legacy = boto(minio)
    fill(legacy, "stage=test")
    volume = fleet.directory("volume")
    migrate("copy", minio, volume)
    names = set(keys(legacy, "data"))
    with CountingProxy(minio) as proxy:
        migrate("final", proxy, volume)
    of_objects = [(method, path) for method, path, _ in proxy.requests if path.removeprefix("/data/") in names]
    # One key is asked for to prove that source and target are two stores.
    assert len(of_objects) <= 1 and not any(method == "GET" for method, _ in of_objects), of_objects
    assert any(query.get("metadata") == "true" for query in proxy.lists())


def test_tags_that_were_replaced_or_removed_are_noticed_on_a_drive(fleet):
    """A bulk pass from the running server needs the object to be written."""
    minio = fleet.minio()
    source = boto(minio)
    source.create_bucket(Bucket="data")
    for key in ("replaced", "removed", "added", "same", "rewritten"):
        source.put_object(Bucket="data", Key=key, Body=key.encode(), Tagging="" if key == "added" else "a=1&b=2")
    volume = fleet.directory("volume")
    migrate("copy", minio, volume)
    # Times are compared by the second: what is written now must not be of the second of the copy.
    written = source.head_object(Bucket="data", Key="rewritten")["LastModified"].timestamp()
    while int(time.time()) <= written:
        time.sleep(0.05)
    source.put_object_tagging(Bucket="data", Key="replaced", Tagging={"TagSet": [{"Key": "c", "Value": "3"}]})
    source.delete_object_tagging(Bucket="data", Key="removed")
    source.put_object_tagging(Bucket="data", Key="added", Tagging={"TagSet": [{"Key": "d", "Value": "4"}]})
    source.copy_object(Bucket="data", Key="rewritten", CopySource="data/rewritten", MetadataDirective="REPLACE", TaggingDirective="REPLACE", Tagging="e=5", Metadata={"k": "v"}, ContentType="text/x-new")
    expected = snapshot(source)
    online = migrate("copy", minio, volume)
    assert "0 new and 1 changed" in online.stdout, online.stdout
    minio.stop()
    aged(minio.directory)
    offline = migrate("final", minio.directory, volume)
    assert "0 new and 3 changed" in offline.stdout, offline.stdout
    assert snapshot(boto(fleet.gateway(volume))) == expected


def test_changed_tags_alone_are_noticed_on_a_running_minio(fleet):
    """Its listings tell of them when they are asked to (`metadata=true`)."""
    minio = fleet.minio()
    legacy = boto(minio)
    fill(legacy, "stage=test")
    volume = fleet.directory("volume")
    migrate("run", minio, volume)
    assert "0 added, 0 updated" in migrate("run", minio, volume).stdout
    legacy.put_object_tagging(Bucket="data", Key="tagged", Tagging={"TagSet": [{"Key": "stage", "Value": "late/alone: +"}]})
    assert "0 added, 1 updated" in migrate("run", minio, volume).stdout
    gateway = fleet.gateway(volume)
    served = boto(gateway)
    assert served.get_object_tagging(Bucket="data", Key="tagged")["TagSet"] == [{"Key": "stage", "Value": "late/alone: +"}]
    gateway.stop()
    # A name that no XML element may have spoils the answer for the whole page: it is asked for without.
    put(legacy, "odd", "of odd", Metadata={"a!b": "c"})
    legacy.delete_object_tagging(Bucket="data", Key="tagged")
    told = migrate("merge", minio, volume)
    assert "added 1, replaced 0" in told.stdout, told.stdout
    legacy.delete_object(Bucket="data", Key="odd")
    told = migrate("merge", minio, volume, "--deletes")
    assert "added 0, replaced 1, deleted 1" in told.stdout, told.stdout


def retag(minio: Minio, stage: str) -> None:
    """Only the tags of one object change; the MinIO was and is stopped."""
    minio.start()
    boto(minio).put_object_tagging(Bucket="data", Key="tagged", Tagging={"TagSet": [{"Key": "stage", "Value": stage}]})
    minio.stop()
    aged(minio.directory)


def test_changed_tags_alone_are_noticed_on_a_drive(fleet):
    minio = fleet.minio()
    legacy = boto(minio)
    fill(legacy, "stage=test&x=a%20b")
    volume = fleet.directory("volume")
    migrate("copy", minio, volume)
    minio.stop()
    # What came over S3 and what lies on the drive is the same.
    again = migrate("copy", aged(minio.directory), volume)
    assert "copied 0 new and 0 changed objects" in again.stdout, again.stdout
    retag(minio, "between the passes")
    migrate("run", minio.directory, volume)
    gateway = fleet.gateway(volume)
    served = boto(gateway)
    tags = lambda: {tag["Key"]: tag["Value"] for tag in served.get_object_tagging(Bucket="data", Key="tagged")["TagSet"]}  # noqa: E731
    assert tags() == {"stage": "between the passes"}
    gateway.stop()
    assert "0 added, 0 updated" in migrate("run", minio.directory, volume).stdout
    retag(minio, "after the hand-over")
    assert "0 added, 1 updated" in migrate("run", minio.directory, volume).stdout
    gateway.start()
    assert tags() == {"stage": "after the hand-over"}
    # Tags that a client gave on the new store are a change as well.
    served.put_object_tagging(Bucket="data", Key="tagged", Tagging={"TagSet": [{"Key": "stage", "Value": "by a client"}]})
    gateway.stop()
    retag(minio, "by a late writer")
    told = migrate("run", minio.directory, volume)
    assert "1 changed on both sides: data/tagged" in told.stdout, told.stdout
    gateway.start()
    assert tags() == {"stage": "by a client"}

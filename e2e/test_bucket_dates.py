"""When a bucket was created is the same after a take-over."""

import pytest

from harness.cli import migrate
from harness.s3 import boto


@pytest.mark.parametrize("metadata", ["xattr", "sidecar"])
def test_buckets_keep_the_date_of_their_creation(fleet, metadata):
    """Taken over online and from the drive, also where the bucket was there already."""
    minio = fleet.minio()
    source = boto(minio)
    for bucket in ("first", "second"):
        source.create_bucket(Bucket=bucket)
        source.put_object(Bucket=bucket, Key="k", Body=b"x")
    dates = {bucket["Name"]: bucket["CreationDate"] for bucket in source.list_buckets()["Buckets"]}
    gateway = fleet.gateway(fleet.directory("online"), "--metadata", metadata)
    boto(gateway).create_bucket(Bucket="second")
    gateway.stop()
    migrate("copy", minio, gateway.directory)
    minio.stop()
    offline = fleet.directory("offline")
    fleet.gateway(offline, "--metadata", metadata).stop()
    migrate("copy", minio.directory, offline)
    for volume in (gateway.directory, offline):
        served = fleet.gateway(volume)
        client = boto(served)
        client.put_object(Bucket="first", Key="later", Body=b"y")
        told = {bucket["Name"]: bucket["CreationDate"] for bucket in client.list_buckets()["Buckets"]}
        assert told.keys() == dates.keys()
        assert all(abs((told[name] - dates[name]).total_seconds()) < 0.001 for name in dates), (told, dates)
        served.stop()

#!/usr/bin/env python3
"""Fill a running MinIO (single drive) with what `examples/minio-drive` has none of, and write what
its S3 API says of it: checksums of every algorithm, copies, SSE-S3, object lock, a suspended
bucket, keys that contain `__XLDIR__` or `xl.meta`, bucket settings.

usage: make-odd-drive.py HOST:PORT ACCESS SECRET MANIFEST.json
needs boto3; start the server with MINIO_KMS_SECRET_KEY for SSE-S3, stop it before the
drive is packed.
"""
import base64
import hashlib
import json
import sys

import boto3
from botocore.config import Config

host, access, secret, manifest = sys.argv[1:5]
s3 = boto3.client("s3", endpoint_url=f"http://{host}", aws_access_key_id=access, aws_secret_access_key=secret,
                  region_name="us-east-1", config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"))


def table(poly):
    rows = []
    for row in range(256):
        for _ in range(8):
            row = (row >> 1) ^ poly if row & 1 else row >> 1
        rows.append(row)
    return rows


TABLES = {"CRC32C": (table(0x82F63B78), (1 << 32) - 1, 4), "CRC64NVME": (table(0x9A6C9329AC4BC9B5), (1 << 64) - 1, 8)}


def checksum(algorithm, data):
    """Request fields that make botocore send a checksum; two algorithms it cannot compute itself."""
    if algorithm not in TABLES:
        return {"ChecksumAlgorithm": algorithm}
    rows, mask, width = TABLES[algorithm]
    crc = mask
    for byte in data:
        crc = rows[(crc ^ byte) & 255] ^ (crc >> 8)
    return {"Checksum" + algorithm: base64.b64encode((crc ^ mask).to_bytes(width, "big")).decode()}


def multipart(bucket, key, sizes, algorithm, kind):
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, ChecksumAlgorithm=algorithm, ChecksumType=kind)["UploadId"]
    parts = []
    for number, size in sizes:
        data = bytes([64 + number]) * size
        answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data, **checksum(algorithm, data))
        parts.append({"PartNumber": number, "ETag": answer["ETag"], "Checksum" + algorithm: answer["Checksum" + algorithm]})
    s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})


sums, settings, suspended = "checksums", "settings", "suspended"
s3.create_bucket(Bucket=sums)
for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
    s3.put_object(Bucket=sums, Key=f"put-{algorithm.lower()}", Body=b"123456789", **checksum(algorithm, b"123456789"))
MIB = 1 << 20
layout = [(1, 5 * MIB), (3, 1000)]  # part numbers need not be contiguous
for algorithm, kind in (("CRC32", "COMPOSITE"), ("CRC32", "FULL_OBJECT"), ("CRC32C", "COMPOSITE"), ("CRC32C", "FULL_OBJECT"),
                        ("CRC64NVME", "FULL_OBJECT"), ("SHA1", "COMPOSITE"), ("SHA256", "COMPOSITE")):
    multipart(sums, f"multi-{algorithm.lower()}-{kind.lower()}", layout, algorithm, kind)
s3.copy_object(Bucket=sums, Key="copy-of-multi", CopySource={"Bucket": sums, "Key": "multi-crc32-full_object"})
s3.copy_object(Bucket=sums, Key="copy-of-put", CopySource={"Bucket": sums, "Key": "put-crc32"})
s3.copy_object(Bucket=sums, Key="put-sha1", CopySource={"Bucket": sums, "Key": "put-sha1"}, Metadata={"a": "b"}, MetadataDirective="REPLACE")
s3.put_object(Bucket=sums, Key="foo__XLDIR__", Body=b"listed as foo/")
s3.put_object(Bucket=sums, Key="xl.meta", Body=b"a directory named xl.meta")
s3.put_object(Bucket=sums, Key="sub/xl.meta", Body=b"another")
s3.put_object(Bucket=sums, Key="headers", Body=b"m", Metadata={"UPPER-Case": "=?UTF-8?Q?caf=C3=A9?="}, StorageClass="REDUCED_REDUNDANCY",
              Expires="Wed, 21 Oct 2026 07:28:00 GMT", ContentEncoding="aws-chunked,gzip", Tagging="a=1&b=x%2By+z")

s3.create_bucket(Bucket=settings, ObjectLockEnabledForBucket=True)
s3.put_bucket_tagging(Bucket=settings, Tagging={"TagSet": [{"Key": "team", "Value": "a + b:/@="}, {"Key": "stage", "Value": "prod"}]})
s3.put_bucket_policy(Bucket=settings, Policy=json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::{settings}/*"]}]}))
s3.put_bucket_lifecycle_configuration(Bucket=settings, LifecycleConfiguration={"Rules": [
    {"ID": "x", "Status": "Enabled", "Filter": {"Prefix": "t/"}, "Expiration": {"Days": 3}}]})
s3.put_bucket_notification_configuration(Bucket=settings, NotificationConfiguration={})
s3.put_object(Bucket=settings, Key="locked", Body=b"l", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate="2030-01-01T00:00:00Z",
              ObjectLockLegalHoldStatus="ON")
s3.put_bucket_encryption(Bucket=settings, ServerSideEncryptionConfiguration={"Rules": [
    {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]})

s3.create_bucket(Bucket=suspended)
s3.put_object(Bucket=suspended, Key="a", Body=b"1")
s3.put_bucket_versioning(Bucket=suspended, VersioningConfiguration={"Status": "Enabled"})
s3.put_object(Bucket=suspended, Key="a", Body=b"22")
s3.put_bucket_versioning(Bucket=suspended, VersioningConfiguration={"Status": "Suspended"})
s3.put_object(Bucket=suspended, Key="a", Body=b"333")
s3.put_object(Bucket=suspended, Key="q", Body=b"333")
s3.delete_object(Bucket=suspended, Key="q")
s3.put_object(Bucket=suspended, Key="q/under-marker", Body=b"4444")
s3.put_object(Bucket=suspended, Key="sse", Body=b"secret", ServerSideEncryption="AES256")

objects = []
for bucket in (sums, settings, suspended):
    keys = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    for key in keys + (["q/under-marker"] if bucket == suspended else []):
        answer = s3.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        body = answer["Body"].read()
        kept = {name: value for name, value in answer.items() if name.startswith("Checksum")}
        objects.append({"bucket": bucket, "key": key, "listed": key in keys, "size": len(body), "etag": answer["ETag"].strip('"'), "checksum": kept,
                        "encoding": answer.get("ContentEncoding"), "expires": answer.get("ExpiresString"), "metadata": answer["Metadata"],
                        "tags": s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"], "encrypted": answer.get("ServerSideEncryption"),
                        "sha256": hashlib.sha256(body).hexdigest()})
created = {b["Name"]: b["CreationDate"].strftime("%Y-%m-%dT%H:%M:%SZ") for b in s3.list_buckets()["Buckets"]}
with open(manifest, "w") as out:
    json.dump({"objects": objects, "created": created}, out, indent=1, ensure_ascii=False)

"""Clients of a server, and a picture of all that a store says of its objects."""

import hashlib
import urllib.error
import urllib.request

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from minio import Minio


def boto(server, secret: str | None = None, **config):
    """A boto3 client. Checksums only where asked for, as older SDKs do; tests of the new default say so."""
    settings = {"s3": {"addressing_style": "path"}, "signature_version": "s3v4", "retries": {"total_max_attempts": 1}, "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required", "connect_timeout": 10, "read_timeout": 120} | config
    return boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=server.access, aws_secret_access_key=secret or server.secret,
                        region_name=server.region, verify=server.ca, config=Config(**settings))


def signed_post(server, path: str, access: str | None = None, secret: str | None = None, region: str = "us-east-1") -> tuple[int, bytes]:
    """A POST without a body, signed by botocore; `access` "" = not signed at all."""
    request = AWSRequest(method="POST", url=f"{server.endpoint}{path}", data=b"")
    if access != "":
        S3SigV4Auth(Credentials(access or server.access, secret or server.secret), "s3", region).add_auth(request)
    sent = urllib.request.Request(request.url, data=b"", headers=dict(request.headers.items()), method="POST")
    try:
        with urllib.request.urlopen(sent, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def minio_client(server, secret: str | None = None) -> Minio:
    """minio-py exactly as the users build it: no region, plain HTTP."""
    return Minio(server.host, access_key=server.access, secret_key=secret or server.secret, secure=False)


def pattern(size: int, seed: str = "s") -> bytes:
    """Bytes that depend on their position, so that a misplaced block is noticed. Compressible."""
    line = "".join(f"{seed}:{i:09d}\n" for i in range(size // (len(seed) + 11) + 1))
    return line.encode()[:size]


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def multipart_etag(data: bytes, part_size: int) -> str:
    """ETag of a multipart object, as S3 forms it: MD5 over the parts' MD5s, a dash, their number."""
    digests = [hashlib.md5(data[i:i + part_size]).digest() for i in range(0, len(data), part_size)] or [hashlib.md5(b"").digest()]
    return f"{hashlib.md5(b''.join(digests)).hexdigest()}-{len(digests)}"


def put_multipart(client, bucket: str, key: str, data: bytes, part_size: int, **extra) -> str:
    """Uploads in parts; returns the ETag without quotes."""
    upload = client.create_multipart_upload(Bucket=bucket, Key=key, **extra)["UploadId"]
    parts = []
    for number, start in enumerate(range(0, max(len(data), 1), part_size), 1):
        answer = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data[start:start + part_size])
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    answer = client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
    return answer["ETag"].strip('"')


def keys(client, bucket: str, **extra) -> list[str]:
    """All keys of a bucket, in the order of the listing."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, **extra)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def empty_bucket(client, bucket: str) -> None:
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        entries = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
        if entries:
            client.delete_objects(Bucket=bucket, Delete={"Objects": entries, "Quiet": True})
    for upload in client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


HEADERS = ("ContentType", "CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ExpiresString", "WebsiteRedirectLocation")


def describe(client, bucket: str, key: str, body: bool = True) -> dict:
    """All that S3 says of one object, in comparable form."""
    answer = client.get_object(Bucket=bucket, Key=key) if body else client.head_object(Bucket=bucket, Key=key)
    told = {"size": answer["ContentLength"], "etag": answer["ETag"].strip('"'), "last_modified": answer["LastModified"].strftime("%Y-%m-%dT%H:%M:%SZ"),
            "headers": {name: answer[name] for name in HEADERS if answer.get(name)}, "metadata": answer["Metadata"]}
    if body:
        data = answer["Body"].read()
        assert len(data) == told["size"], f"{bucket}/{key}: {len(data)} bytes of {told['size']}"
        told["sha256"] = hashlib.sha256(data).hexdigest()
    told["tags"] = {tag["Key"]: tag["Value"] for tag in client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]}
    return told


def snapshot(client, buckets: list[str] | None = None, body: bool = True) -> dict[str, dict[str, dict]]:
    """What a store says of everything in it: bucket -> key -> description."""
    if buckets is None:
        buckets = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
    return {bucket: {key: describe(client, bucket, key, body) for key in keys(client, bucket)} for bucket in buckets}


def listing(client, bucket: str) -> list[tuple]:
    """What the listing alone says: key, size, ETag, time."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [(e["Key"], e["Size"], e["ETag"].strip('"'), e["LastModified"].replace(microsecond=0)) for page in pages for e in page.get("Contents", [])]

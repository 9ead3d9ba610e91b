"""boto3: what minio-py does not use. Each expectation is S3's; `--target minio` and `--target versitygw` show which of them the peers share."""

import base64
import hashlib
import http.client
import urllib.parse
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest
import requests
from botocore.exceptions import ClientError

from conftest import bucket_name
from harness.s3 import boto, keys, md5, multipart_etag, pattern, put_multipart

KIB, MIB = 1 << 10, 1 << 20


def code(error) -> str:
    return error.value.response["Error"]["Code"]


def status(error) -> int:
    return error.value.response["ResponseMetadata"]["HTTPStatusCode"]


# Buckets

def test_bucket_with_location_constraint_us_east_1(client):
    """Newer clients always send it; AWS refuses this one value, MinIO takes it."""
    name = bucket_name()
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "us-east-1"})
    assert client.get_bucket_location(Bucket=name)["LocationConstraint"] in (None, "us-east-1")
    head = client.head_bucket(Bucket=name)
    assert head["ResponseMetadata"]["HTTPStatusCode"] == 200
    client.delete_bucket(Bucket=name)
    with pytest.raises(ClientError) as error:
        client.head_bucket(Bucket=name)
    assert status(error) == 404


def test_non_empty_bucket_is_kept(client, bucket):
    client.put_object(Bucket=bucket, Key="a/b", Body=b"x")
    with pytest.raises(ClientError) as error:
        client.delete_bucket(Bucket=bucket)
    assert (code(error), status(error)) == ("BucketNotEmpty", 409)
    assert keys(client, bucket) == ["a/b"]


@pytest.mark.parametrize("name", ["ab", "Upper", "under_score", "192.168.5.4"])
def test_invalid_bucket_names(server, name):
    answer = signed(server, "PUT", f"/{name}")
    assert answer.status_code == 400
    assert "InvalidBucketName" in answer.text


def test_bucket_tags(client, bucket):
    with pytest.raises(ClientError) as error:
        client.get_bucket_tagging(Bucket=bucket)
    assert code(error) == "NoSuchTagSet"
    client.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "site", "Value": "a b"}]})
    assert client.get_bucket_tagging(Bucket=bucket)["TagSet"] == [{"Key": "site", "Value": "a b"}]
    client.delete_bucket_tagging(Bucket=bucket)
    with pytest.raises(ClientError):
        client.get_bucket_tagging(Bucket=bucket)


# Objects and their metadata

def test_headers_and_metadata(client, bucket):
    sent = {"ContentType": "text/csv; charset=utf-8", "CacheControl": "max-age=60", "ContentDisposition": "attachment; filename*=UTF-8''r%C3%A9sum%C3%A9.csv",
            "ContentEncoding": "identity", "ContentLanguage": "fr"}
    client.put_object(Bucket=bucket, Key="k", Body=b"data", Expires=datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
                      Metadata={"Upper": "Case", "json": '[{"C":"D"}]'}, Tagging="a=1&b=x%20y", **sent)
    for answer in (client.head_object(Bucket=bucket, Key="k"), client.get_object(Bucket=bucket, Key="k")):
        assert {name: answer[name] for name in sent} == sent
        assert answer["ExpiresString"] == "Wed, 02 Jan 2030 03:04:05 GMT"
        assert {name.lower(): value for name, value in answer["Metadata"].items()} == {"upper": "Case", "json": '[{"C":"D"}]'}
    assert client.get_object(Bucket=bucket, Key="k")["TagCount"] == 2
    tags = client.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]
    assert sorted((t["Key"], t["Value"]) for t in tags) == [("a", "1"), ("b", "x y")]
    # An overwrite without any of it leaves none of it.
    client.put_object(Bucket=bucket, Key="k", Body=b"new")
    answer = client.head_object(Bucket=bucket, Key="k")
    assert answer["Metadata"] == {} and "CacheControl" not in answer and "ExpiresString" not in answer
    assert answer["ContentType"] == "binary/octet-stream"
    assert client.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []


def test_object_tags(client, bucket):
    client.put_object(Bucket=bucket, Key="k", Body=b"x")
    before = client.head_object(Bucket=bucket, Key="k")
    client.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": f"t{i}", "Value": str(i)} for i in range(10)]})
    assert len(client.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]) == 10
    with pytest.raises(ClientError) as error:
        client.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": f"t{i}", "Value": ""} for i in range(11)]})
    assert status(error) == 400
    client.delete_object_tagging(Bucket=bucket, Key="k")
    assert client.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []
    after = client.head_object(Bucket=bucket, Key="k")
    assert (after["ETag"], after["LastModified"]) == (before["ETag"], before["LastModified"])


ODD_KEYS = ["space and+plus %41.txt", "caf\u00e9", "cafe\u0301", "\U0001f4e6", "dot.dir/..hidden", "colon:quote\"'<>&.txt", "k" * 255, "/".join("abcdefgh"),
            "trailing-dot./x.", "back\\slash", "a+b", "a b", "a%20b", "a%2Fb", "100%", "~$!*'()", "\u00a0nbsp\u202f", "meta/etag", "d/meta/etag", "=&?#;,@"]


def test_odd_keys(client, bucket):
    for key in ODD_KEYS:
        client.put_object(Bucket=bucket, Key=key, Body=key.encode(), Metadata={"n": "1"})
    assert keys(client, bucket) == sorted(ODD_KEYS, key=str.encode)
    for key in ODD_KEYS:
        assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
        client.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
        assert client.get_object(Bucket=bucket, Key="copy")["Body"].read() == key.encode()
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in [*ODD_KEYS, "copy"]]})
    assert keys(client, bucket) == []


def test_directory_objects(client, bucket):
    client.put_object(Bucket=bucket, Key="folder/", Body=b"", ContentType="application/x-directory")
    client.put_object(Bucket=bucket, Key="folder/child", Body=b"x")
    client.put_object(Bucket=bucket, Key="implicit/child", Body=b"y")
    assert keys(client, bucket) == ["folder/", "folder/child", "implicit/child"]
    assert client.head_object(Bucket=bucket, Key="folder/")["ContentType"] == "application/x-directory"
    with pytest.raises(ClientError) as error:
        client.head_object(Bucket=bucket, Key="implicit/")
    assert status(error) == 404
    client.delete_object(Bucket=bucket, Key="folder/")
    assert keys(client, bucket) == ["folder/child", "implicit/child"]


# Listings

LIST_KEYS = ["a!", "a-b", "a.b", "a/x", "a/y/z", "a0", "b", "f3", "f4", "f5", "f6"]


@pytest.fixture
def listed(client, bucket):
    for key in LIST_KEYS:
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    return bucket


def both(client, bucket, **extra):
    """Keys and prefixes, from V1 and V2; they must agree."""
    answers = []
    for call in (client.list_objects, client.list_objects_v2):
        answer = call(Bucket=bucket, **extra)
        answers.append(([e["Key"] for e in answer.get("Contents", [])], [p["Prefix"] for p in answer.get("CommonPrefixes", [])]))
    assert answers[0] == answers[1]
    return answers[0]


def test_listing_is_in_byte_order_of_full_keys(client, listed):
    assert both(client, listed) == (LIST_KEYS, [])
    assert both(client, listed, Delimiter="/") == ([k for k in LIST_KEYS if "/" not in k], ["a/"])
    assert both(client, listed, Prefix="a/", Delimiter="/") == (["a/x"], ["a/y/"])
    assert both(client, listed, Prefix="a") == (LIST_KEYS[:6], [])
    assert both(client, listed, Delimiter="5") == ([k for k in LIST_KEYS if k != "f5"], ["f5"])
    assert both(client, listed, Prefix="none") == ([], [])


def test_start_after_and_pages(client, listed):
    answer = client.list_objects_v2(Bucket=listed, Prefix="f", Delimiter="5", StartAfter="f3")
    assert [e["Key"] for e in answer["Contents"]] == ["f4", "f6"]
    assert [p["Prefix"] for p in answer["CommonPrefixes"]] == ["f5"]
    for size in (1, 2, 3, 7):
        pages = list(client.get_paginator("list_objects_v2").paginate(Bucket=listed, PaginationConfig={"PageSize": size}))
        assert [e["Key"] for page in pages for e in page.get("Contents", [])] == LIST_KEYS
        assert all(page["KeyCount"] == size for page in pages[:-1])
        pages = list(client.get_paginator("list_objects").paginate(Bucket=listed, Delimiter="/", PaginationConfig={"PageSize": size}))
        names = [e["Key"] for page in pages for e in page.get("Contents", [])] + [p["Prefix"] for page in pages for p in page.get("CommonPrefixes", [])]
        assert sorted(names) == sorted([k for k in LIST_KEYS if "/" not in k] + ["a/"])
    assert client.list_objects_v2(Bucket=listed, MaxKeys=0)["IsTruncated"] is False


def test_encoding_type_url(server, client, bucket):
    client.put_object(Bucket=bucket, Key="a+b %c/\u00e9", Body=b"")
    text = signed(server, "GET", f"/{bucket}", {"list-type": "2", "encoding-type": "url", "prefix": "a+b "}).text
    assert "<Key>a%2Bb+%25c/%C3%A9</Key>" in text or "<Key>a%2Bb%20%25c/%C3%A9</Key>" in text
    assert "<EncodingType>url</EncodingType>" in text
    assert "<Prefix>a%2Bb+</Prefix>" in text or "<Prefix>a%2Bb%20</Prefix>" in text


def test_versions_of_an_unversioned_bucket(client, listed):
    answer = client.list_object_versions(Bucket=listed)
    assert [(v["Key"], v["VersionId"], v["IsLatest"]) for v in answer["Versions"]] == [(key, "null", True) for key in LIST_KEYS]
    assert "DeleteMarkers" not in answer
    assert "Status" not in client.get_bucket_versioning(Bucket=listed)


# Ranges and conditions

@pytest.mark.parametrize(("sent", "content", "told"), [
    ("bytes=5-15", slice(5, 10), "bytes 5-9/10"), ("bytes=0-0", slice(0, 1), "bytes 0-0/10"), ("bytes=-3", slice(7, 10), "bytes 7-9/10"),
    ("bytes=-150", slice(0, 10), "bytes 0-9/10"), ("bytes=4-", slice(4, 10), "bytes 4-9/10")])
def test_range(client, bucket, sent, content, told):
    client.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    answer = client.get_object(Bucket=bucket, Key="k", Range=sent)
    assert answer["Body"].read() == b"0123456789"[content]
    assert answer["ContentRange"] == told
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206


def test_range_beyond_the_end(client, bucket):
    client.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    with pytest.raises(ClientError) as error:
        client.get_object(Bucket=bucket, Key="k", Range="bytes=9999-")
    assert (code(error), status(error)) == ("InvalidRange", 416)


def test_conditional_reads(client, bucket):
    etag = client.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    modified = client.head_object(Bucket=bucket, Key="k")["LastModified"]
    hour = timedelta(hours=1)
    assert client.get_object(Bucket=bucket, Key="k", IfMatch=etag)["ETag"] == etag
    assert client.get_object(Bucket=bucket, Key="k", IfUnmodifiedSince=modified + hour)["ETag"] == etag
    assert client.get_object(Bucket=bucket, Key="k", IfModifiedSince=modified - hour)["ETag"] == etag
    for extra, expected in (({"IfMatch": '"0"'}, 412), ({"IfNoneMatch": etag}, 304), ({"IfModifiedSince": modified}, 304), ({"IfUnmodifiedSince": modified - hour}, 412)):
        for call in (client.get_object, client.head_object):
            with pytest.raises(ClientError) as error:
                call(Bucket=bucket, Key="k", **extra)
            assert status(error) == expected, extra


def test_conditional_writes(client, bucket):
    client.put_object(Bucket=bucket, Key="k", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket=bucket, Key="k", Body=b"second", IfNoneMatch="*")
    assert (code(error), status(error)) == ("PreconditionFailed", 412)
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket=bucket, Key="k", Body=b"second", IfMatch='"0"')
    assert status(error) == 412
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"
    client.put_object(Bucket=bucket, Key="k", Body=b"third", IfMatch=f'"{md5(b"first")}"')
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"third"


def test_one_winner_among_conditional_puts(server, bucket):
    def put(i):
        try:
            boto(server).put_object(Bucket=bucket, Key="k", Body=str(i).encode(), IfNoneMatch="*")
            return 200
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(put, range(16)))
    assert answers.count(200) == 1
    assert set(answers) <= {200, 412, 409}


# Multipart

def test_multipart(client, bucket):
    data = pattern(11 * MIB)
    etag = put_multipart(client, bucket, "k", data, 5 * MIB, ContentType="application/zip", Metadata={"kind": "m"}, Tagging="a=1", CacheControl="no-store")
    assert etag == multipart_etag(data, 5 * MIB)
    answer = client.get_object(Bucket=bucket, Key="k")
    assert answer["Body"].read() == data
    assert (answer["ETag"].strip('"'), answer["ContentType"], answer["Metadata"], answer["CacheControl"], answer["TagCount"]) == (etag, "application/zip", {"kind": "m"}, "no-store", 1)
    part = client.get_object(Bucket=bucket, Key="k", PartNumber=3)
    assert (part["PartsCount"], part["ContentLength"], part["ContentRange"]) == (3, MIB, f"bytes {10 * MIB}-{11 * MIB - 1}/{11 * MIB}")
    assert part["Body"].read() == data[10 * MIB:]


def test_multipart_lists_and_abort(client, bucket):
    uploads = [client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in ("k", "k", "l")]
    for number in (1, 3, 7):
        client.upload_part(Bucket=bucket, Key="k", UploadId=uploads[0], PartNumber=number, Body=b"x" * number)
    parts = client.list_parts(Bucket=bucket, Key="k", UploadId=uploads[0])["Parts"]
    assert [(p["PartNumber"], p["Size"], p["ETag"].strip('"')) for p in parts] == [(n, n, md5(b"x" * n)) for n in (1, 3, 7)]
    page = client.list_parts(Bucket=bucket, Key="k", UploadId=uploads[0], MaxParts=2)
    assert page["IsTruncated"] and page["NextPartNumberMarker"] == 3
    listed = {(u["Key"], u["UploadId"]) for u in client.list_multipart_uploads(Bucket=bucket)["Uploads"]}
    assert listed == set(zip(("k", "k", "l"), uploads))
    for key, upload in zip(("k", "k", "l"), uploads):
        client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)
    with pytest.raises(ClientError) as error:
        client.upload_part(Bucket=bucket, Key="k", UploadId=uploads[0], PartNumber=1, Body=b"")
    assert (code(error), status(error)) == ("NoSuchUpload", 404)
    assert keys(client, bucket) == []


def test_multipart_mistakes(client, bucket):
    upload = client.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    etags = [client.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=n, Body=b"small")["ETag"] for n in (1, 2)]

    def complete(*parts):
        with pytest.raises(ClientError) as error:
            client.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": n, "ETag": e} for n, e in parts]})
        return code(error), status(error)

    assert complete((1, etags[0]), (2, etags[1])) == ("EntityTooSmall", 400)
    assert complete((2, etags[1]), (1, etags[0])) == ("InvalidPartOrder", 400)
    assert complete((1, '"00000000000000000000000000000000"')) == ("InvalidPart", 400)
    assert complete((3, etags[0])) == ("InvalidPart", 400)
    with pytest.raises(ClientError) as error:
        client.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=10001, Body=b"")
    assert status(error) == 400
    assert keys(client, bucket) == []


def test_upload_part_copy(client, bucket):
    data = pattern(7 * MIB)
    client.put_object(Bucket=bucket, Key="from", Body=data)
    upload = client.create_multipart_upload(Bucket=bucket, Key="to")["UploadId"]
    parts = []
    for number, (first, last) in enumerate(((0, 5 * MIB - 1), (5 * MIB, 7 * MIB - 1)), 1):
        answer = client.upload_part_copy(Bucket=bucket, Key="to", UploadId=upload, PartNumber=number, CopySource={"Bucket": bucket, "Key": "from"}, CopySourceRange=f"bytes={first}-{last}")
        assert answer["CopyPartResult"]["ETag"].strip('"') == md5(data[first:last + 1])
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    client.complete_multipart_upload(Bucket=bucket, Key="to", UploadId=upload, MultipartUpload={"Parts": parts})
    answer = client.get_object(Bucket=bucket, Key="to")
    assert answer["Body"].read() == data
    assert answer["ETag"].strip('"') == multipart_etag(data, 5 * MIB)


def test_attributes(client, bucket):
    data = pattern(6 * MIB)
    etag = put_multipart(client, bucket, "k", data, 5 * MIB)
    answer = client.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ETag", "ObjectSize", "ObjectParts", "StorageClass"])
    assert (answer["ETag"], answer["ObjectSize"]) == (etag, len(data))
    assert answer["ObjectParts"]["TotalPartsCount"] == 2


# Copies

def test_copy_directives(client, bucket):
    client.put_object(Bucket=bucket, Key="from", Body=b"x", ContentType="text/a", CacheControl="no-store", Metadata={"k": "v"}, Tagging="t=1")
    source = {"Bucket": bucket, "Key": "from"}
    client.copy_object(Bucket=bucket, Key="same", CopySource=source)
    head = client.head_object(Bucket=bucket, Key="same")
    assert (head["ContentType"], head["CacheControl"], head["Metadata"]) == ("text/a", "no-store", {"k": "v"})
    assert client.get_object_tagging(Bucket=bucket, Key="same")["TagSet"] == [{"Key": "t", "Value": "1"}]
    client.copy_object(Bucket=bucket, Key="new", CopySource=source, MetadataDirective="REPLACE", ContentType="text/b", Metadata={"n": "w"}, TaggingDirective="REPLACE", Tagging="u=2")
    head = client.head_object(Bucket=bucket, Key="new")
    assert (head["ContentType"], head.get("CacheControl"), head["Metadata"]) == ("text/b", None, {"n": "w"})
    assert client.get_object_tagging(Bucket=bucket, Key="new")["TagSet"] == [{"Key": "u", "Value": "2"}]
    # Onto itself: allowed only when something changes, and then nothing of the old stays.
    with pytest.raises(ClientError) as error:
        client.copy_object(Bucket=bucket, Key="from", CopySource=source)
    assert (code(error), status(error)) == ("InvalidRequest", 400)
    client.copy_object(Bucket=bucket, Key="from", CopySource=source, MetadataDirective="REPLACE", Metadata={"n": "w"})
    head = client.head_object(Bucket=bucket, Key="from")
    assert (head["Metadata"], head.get("CacheControl")) == ({"n": "w"}, None)
    with pytest.raises(ClientError) as error:
        client.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "none"})
    assert (code(error), status(error)) == ("NoSuchKey", 404)


# Integrity

def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


CHECKSUMS = {"CRC32": lambda d: b64(zlib.crc32(d).to_bytes(4, "big")), "SHA1": lambda d: b64(hashlib.sha1(d).digest()), "SHA256": lambda d: b64(hashlib.sha256(d).digest())}


@pytest.mark.parametrize("algorithm", CHECKSUMS)
def test_checksums(client, bucket, algorithm):
    """Sent as a header (a body of known length): checked, kept, told on request."""
    data, name = pattern(70 * KIB), f"Checksum{algorithm}"
    right = CHECKSUMS[algorithm](data)
    assert client.put_object(Bucket=bucket, Key="k", Body=data, **{name: right})[name] == right
    assert client.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[name] == right
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket=bucket, Key="bad", Body=data, **{name: CHECKSUMS[algorithm](b"other")})
    assert status(error) == 400
    assert keys(client, bucket) == ["k"]


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_in_trailers(server, bucket, algorithm, tmp_path):
    """An unseekable body over plain HTTP goes out chunk-signed; SDKs put the checksum behind it."""
    client = boto(server, request_checksum_calculation="when_supported", response_checksum_validation="when_supported")
    data = pattern(3 * MIB + 17)
    path = tmp_path / "body"
    path.write_bytes(data)
    with path.open("rb") as body:
        client.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    answer = client.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert answer["Body"].read() == data
    assert answer[f"Checksum{algorithm}"] == CHECKSUMS[algorithm](data)


def test_default_checksums_of_new_sdks(server, bucket):
    """Nothing asked for: boto3 sends CRC32 with everything, also with parts and DeleteObjects."""
    client = boto(server, request_checksum_calculation="when_supported", response_checksum_validation="when_supported")
    data = pattern(6 * MIB)
    client.put_object(Bucket=bucket, Key="k", Body=data)
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == data
    assert put_multipart(client, bucket, "m", data, 5 * MIB) == multipart_etag(data, 5 * MIB)
    assert client.get_object(Bucket=bucket, Key="m")["Body"].read() == data
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}, {"Key": "m"}]})
    assert keys(client, bucket) == []


def test_content_md5(client, bucket):
    client.put_object(Bucket=bucket, Key="k", Body=b"x", ContentMD5=b64(hashlib.md5(b"x").digest()))
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket=bucket, Key="k", Body=b"x", ContentMD5=b64(hashlib.md5(b"y").digest()))
    assert (code(error), status(error)) == ("BadDigest", 400)
    assert client.head_object(Bucket=bucket, Key="k")["ContentLength"] == 1


# Requests as they are on the wire

def signed(server, method, path, query=None, body=b"", headers=None, region=None) -> requests.Response:
    """One request signed by botocore, sent as it is."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    url = server.endpoint + path + ("?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote) if query else "")
    request = AWSRequest(method=method, url=url, data=body, headers=headers or {})
    S3SigV4Auth(Credentials(server.access, server.secret), "s3", region or server.region).add_auth(request)
    return requests.request(method, url, data=body, headers=dict(request.headers), timeout=30)


def test_presigned_urls(client, bucket):
    client.put_object(Bucket=bucket, Key="a b", Body=b"data", ContentType="text/plain")
    url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b", "ResponseContentDisposition": "attachment"}, ExpiresIn=60)
    answer = requests.get(url, timeout=30)
    assert (answer.status_code, answer.content, answer.headers["Content-Disposition"]) == (200, b"data", "attachment")
    assert requests.get(url.replace("a%20b", "other"), timeout=30).status_code == 403
    put = client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "put"})
    assert requests.put(put, data=b"by url", timeout=30).status_code == 200
    assert client.get_object(Bucket=bucket, Key="put")["Body"].read() == b"by url"
    assert requests.get(f"{client.meta.endpoint_url}/{bucket}/put", timeout=30).status_code == 403


def test_wrong_keys(server, client, bucket):
    with pytest.raises(ClientError) as error:
        boto(server, secret="x" * 12).list_buckets()
    assert (code(error), status(error)) == ("SignatureDoesNotMatch", 403)
    import copy
    stranger = copy.copy(server)
    stranger.access = "stranger"
    with pytest.raises(ClientError) as error:
        boto(stranger).list_buckets()
    assert (code(error), status(error)) == ("InvalidAccessKeyId", 403)


def test_error_bodies_are_s3_xml(server, bucket):
    answer = signed(server, "GET", f"/{bucket}/none")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/xml"
    assert answer.headers["x-amz-request-id"]
    for part in ("<Code>NoSuchKey</Code>", "<Message>", "<RequestId>"):
        assert part in answer.text
    assert answer.headers["x-amz-request-id"] in answer.text


def test_connections_are_kept(server, bucket):
    """Closing after each answer breaks the AWS C++ SDK."""
    connection = http.client.HTTPConnection(server.host, timeout=30)
    sockets = set()
    for _ in range(3):
        connection.request("GET", f"/{bucket}/none")
        answer = connection.getresponse()
        answer.read()
        assert answer.getheader("Connection", "keep-alive").lower() != "close"
        sockets.add(connection.sock)
    assert len(sockets) == 1 and None not in sockets
    connection.close()


def test_delete_objects(client, bucket):
    for i in range(5):
        client.put_object(Bucket=bucket, Key=f"d/{i}", Body=b"")
    answer = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"d/{i}"} for i in range(5)] + [{"Key": "missing"}]})
    assert sorted(d["Key"] for d in answer["Deleted"]) == [*(f"d/{i}" for i in range(5)), "missing"]
    assert "Errors" not in answer
    assert keys(client, bucket) == []


def test_large_stream_by_upload_fileobj(client, bucket, tmp_path):
    """s3transfer: parallel parts, then a parallel ranged download."""
    path = tmp_path / "in"
    path.write_bytes(pattern(20 * MIB))
    client.upload_file(str(path), bucket, "big")
    client.download_file(bucket, "big", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == path.read_bytes()

"""Random histories of S3 operations, the same for the same seed, and their way through a client."""

import random
import uuid

from botocore.exceptions import ClientError

from harness.model import PART, Model, Object, Step
from harness.s3 import keys as all_keys
from harness.s3 import md5

# Keys that every server can hold beside each other, in orders that trees get wrong.
PLAIN = ("a0", "a/1", "a/2", "a/b/1", "a-b", "a.b", "ab/1", "é/ü", "sp ace+%25&=?x", "dir/", "dir/x", "z")
# Keys that only S3, and we, keep apart.
ODD = ("a", "a/b", "a/", "a//1", "/lead", "../up", "a/./1", "..", ".sgwtmp/x", "n" * 300, "dir", "dir/x/y", "z/")


class History:
    """Steps drawn at random, the same for the same seed."""

    def __init__(self, seed: int, length: int, pool: tuple[str, ...]):
        self.random, self.length, self.pool = random.Random(seed), length, pool

    def __iter__(self):
        verbs = {"put": 10, "get": 8, "head": 3, "delete": 5, "delete_many": 1, "copy": 4, "list": 8, "tag": 2, "tags": 2, "untag": 1,
                 "attributes": 2, "begin": 3, "part": 6, "part_copy": 2, "read_part": 3, "complete": 4, "abort": 1, "parts": 2, "uploads": 2}
        for number in range(self.length):
            verb = self.random.choices(list(verbs), list(verbs.values()))[0]
            yield Step(verb, getattr(self, f"_{verb}")(number))

    def _key(self):
        return self.random.choice(self.pool)

    def _body(self, key: str, number: int) -> bytes:
        # versitygw keeps nothing in a directory; what we do with `dir/` and a body is among the odd ones.
        if key.endswith("/") and self.pool == PLAIN:
            return b""
        return f"{number} {key} ".encode() * self.random.choice((0, 1, 1, 40, 9000))

    def _extra(self):
        extra = {}
        if self.random.random() < 0.4:
            extra["type"] = self.random.choice(("text/plain", "application/x-thing; v=1"))
        if self.random.random() < 0.4:
            extra["metadata"] = {self.random.choice(("one", "two-words")): self.random.choice(("1", "a, b; c=d"))}
        return extra

    def _put(self, number):
        key = self._key()
        extra = self._extra()
        if self.random.random() < 0.2:
            extra["tags"] = {"t": str(number), "a b": "c/d"}
        return {"key": key, "body": self._body(key, number), "condition": self.random.choice((None,) * 5 + ("absent", "same", "other")), **extra}

    def _get(self, _):
        return {"key": self._key(), "range": self.random.choice((None,) * 4 + ("bytes=0-0", "bytes=3-9", "bytes=5-", "bytes=-4", "bytes=900000-", "bytes=2-900000")),
                "condition": self.random.choice((None,) * 5 + ("same", "other", "not-same", "not-other"))}

    def _head(self, _):
        return {"key": self._key()}

    _delete = _tags = _untag = _attributes = _head

    def _read_part(self, _):
        return {"key": self._key(), "number": self.random.choice((1, 1, 2, 3)), "body": self.random.random() < 0.5}

    def _delete_many(self, _):
        return {"keys": tuple(self.random.sample(self.pool, 3))}

    def _copy(self, _):
        return {"source": self._key(), "key": self._key(), "replace": self.random.random() < 0.4, "tags": self.random.choice((None, None, {"copied": "yes"})), **self._extra()}

    def _list(self, _):
        return {"version": self.random.choice((1, 2)), "prefix": self.random.choice(("", "", "a", "a/", "dir/", "a/b", "é", "no")), "delimiter": self.random.choice(("", "/", "/", "b", "1")),
                "after": self.random.choice(("", "", "a", "a/1", "a/b/", "dir", "z")), "max_keys": self.random.choice((1, 2, 3, 1000))}

    def _tag(self, number):
        return {"key": self._key(), "tags": {"n": str(number), "é": "ü"} if self.random.random() < 0.8 else {}}

    def _begin(self, _):
        key = self.random.choice([key for key in self.pool if not key.endswith("/")])
        return {"slot": self.random.randrange(3), "key": key, "tags": self.random.choice((None, {"up": "loaded"})), **self._extra()}

    def _part(self, number):
        part = self.random.choice((1, 1, 2, 3))
        size = PART if self.random.random() < 0.3 else self.random.choice((10, 70_000))
        return {"slot": self.random.randrange(3), "number": part, "body": (f"{number} {part} ".encode() * (size // 4))[:size]}

    def _part_copy(self, _):
        return {"slot": self.random.randrange(3), "number": self.random.choice((1, 2)), "source": self._key(), "range": self.random.choice((None, "bytes=0-99"))}

    def _complete(self, _):
        how = self.random.choice(("all", "all", "all", "wrong", "backwards", "missing"))
        return {"slot": self.random.randrange(3), "how": how, "condition": "absent" if how == "all" and self.random.random() < 0.3 else None}

    def _abort(self, _):
        return {"slot": self.random.randrange(3)}

    _parts = _abort

    def _uploads(self, _):
        return {"prefix": self.random.choice(("", "", "a", "dir"))}


class Asked:
    """The same steps through a client. `model` says which ETag a condition means and which uploads there are."""

    def __init__(self, client, bucket: str, model: Model):
        self.client, self.bucket, self.model, self.ids = client, bucket, model, {}

    def answer(self, step: Step):
        try:
            return getattr(self, step.verb)(**step.arguments)
        except ClientError as error:
            told = error.response
            return told["ResponseMetadata"]["HTTPStatusCode"], told["Error"]["Code"]

    @staticmethod
    def _extra(type=None, metadata=None, tags=None) -> dict:
        extra = {"ContentType": type, "Metadata": metadata, "Tagging": "&".join(f"{k.replace(' ', '%20')}={v.replace('/', '%2F')}" for k, v in (tags or {}).items())}
        return {name: value for name, value in extra.items() if value}

    def _condition(self, key, condition) -> dict:
        if condition is None:
            return {}
        if condition == "absent":
            return {"IfNoneMatch": "*"}
        name = "IfNoneMatch" if condition.startswith("not-") else "IfMatch"
        return {name: f'"{self.model.etag(key, condition)}"'}

    def _id(self, slot) -> str:
        return self.ids.get(slot) or str(uuid.UUID(int=slot + 1, version=4))

    def _at(self, slot) -> dict:
        upload = self.model.slots.get(slot)
        return {"Bucket": self.bucket, "Key": upload.key if upload else "none", "UploadId": self._id(slot) if upload else str(uuid.UUID(int=slot + 1, version=4))}

    def put(self, key, body, condition, **extra):
        told = self.client.put_object(Bucket=self.bucket, Key=key, Body=body, **self._condition(key, condition), **self._extra(**extra))
        return "ok", told["ETag"].strip('"')

    @staticmethod
    def _describe(told):
        return told["ETag"].strip('"'), told["ContentType"], told["Metadata"]

    def get(self, key, range, condition):
        told = self.client.get_object(Bucket=self.bucket, Key=key, **({"Range": range} if range else {}), **self._condition(key, condition))
        return "ok", told["ResponseMetadata"]["HTTPStatusCode"], md5(told["Body"].read()), *self._describe(told)

    def head(self, key):
        told = self.client.head_object(Bucket=self.bucket, Key=key)
        return "ok", told["ContentLength"], *self._describe(told)

    def attributes(self, key):
        told = self.client.get_object_attributes(Bucket=self.bucket, Key=key, ObjectAttributes=["ETag", "ObjectSize", "ObjectParts"])
        return "ok", told.get("ObjectSize"), told["ETag"].strip('"'), told.get("ObjectParts", {}).get("TotalPartsCount", 0)

    def read_part(self, key, number, body):
        call = self.client.get_object if body else self.client.head_object
        told = call(Bucket=self.bucket, Key=key, PartNumber=number)
        return "ok", told["ContentLength"], told.get("PartsCount", 0), told["ETag"].strip('"'), md5(told["Body"].read()) if body else None

    def delete(self, key):
        self.client.delete_object(Bucket=self.bucket, Key=key)
        return ("ok",)

    def delete_many(self, keys):
        told = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": [{"Key": key} for key in keys]})
        assert not told.get("Errors"), told["Errors"]
        return "ok", sorted(one["Key"] for one in told["Deleted"])

    def copy(self, source, key, replace, tags, **extra):
        directive = {"MetadataDirective": "REPLACE", **self._extra(**extra)} if replace else {}
        if tags:
            directive |= {"TaggingDirective": "REPLACE", **self._extra(tags=tags)}
        told = self.client.copy_object(Bucket=self.bucket, Key=key, CopySource={"Bucket": self.bucket, "Key": source}, **directive)
        return "ok", told["CopyObjectResult"]["ETag"].strip('"')

    def list(self, version, prefix, delimiter, after, max_keys):
        asked = {"Bucket": self.bucket, "Prefix": prefix, "Delimiter": delimiter, "MaxKeys": max_keys}
        pages, token = [], after
        call, name = (self.client.list_objects, "Marker") if version == 1 else (self.client.list_objects_v2, "StartAfter")
        while True:
            told = call(**asked, **({name: token} if token else {}))
            page = [(one["Key"], one["Size"], one["ETag"].strip('"')) for one in told.get("Contents", [])] + [(one["Prefix"],) for one in told.get("CommonPrefixes", [])]
            pages.append(tuple(sorted(page, key=lambda entry: entry[0].encode())))
            assert version == 1 or told["KeyCount"] == len(page), told
            if not told["IsTruncated"] or len(pages) > 100:
                return "ok", tuple(pages)
            if version == 1:
                token = told.get("NextMarker") or pages[-1][-1][0]
            else:
                name, token = "ContinuationToken", told["NextContinuationToken"]

    def tag(self, key, tags):
        self.client.put_object_tagging(Bucket=self.bucket, Key=key, Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in tags.items()]})
        return ("ok",)

    def tags(self, key):
        return "ok", {tag["Key"]: tag["Value"] for tag in self.client.get_object_tagging(Bucket=self.bucket, Key=key)["TagSet"]}

    def untag(self, key):
        self.client.delete_object_tagging(Bucket=self.bucket, Key=key)
        return ("ok",)

    def begin(self, slot, key, **extra):
        if slot in self.model.slots:
            self.client.abort_multipart_upload(**self._at(slot))
        self.ids[slot] = self.client.create_multipart_upload(Bucket=self.bucket, Key=key, **self._extra(**extra))["UploadId"]
        return ("ok",)

    def part(self, slot, number, body):
        told = self.client.upload_part(**self._at(slot), PartNumber=number, Body=body)
        return "ok", told["ETag"].strip('"')

    def part_copy(self, slot, number, source, range):
        found = self.model.objects.get(source)
        part = {"CopySourceRange": range} if range and found and len(found.body) >= 100 else {}
        told = self.client.upload_part_copy(**self._at(slot), PartNumber=number, CopySource={"Bucket": self.bucket, "Key": source}, **part)
        return "ok", told["CopyPartResult"]["ETag"].strip('"')

    def complete(self, slot, how, condition):
        upload = self.model.slots.get(slot)
        parts = [{"PartNumber": number, "ETag": f'"{md5(body)}"'} for number, body in sorted(upload.parts.items())] if upload else []
        parts = parts or [{"PartNumber": 1, "ETag": f'"{md5(b"none")}"'}]
        if how == "wrong":
            parts[-1]["ETag"] = f'"{md5(b"wrong")}"'
        elif how == "missing":
            parts.append({"PartNumber": 9, "ETag": f'"{md5(b"missing")}"'})
        elif how == "backwards":
            parts.reverse()
        told = self.client.complete_multipart_upload(**self._at(slot), MultipartUpload={"Parts": parts}, **({"IfNoneMatch": "*"} if condition else {}))
        return "ok", told["ETag"].strip('"')

    def abort(self, slot):
        self.client.abort_multipart_upload(**self._at(slot))
        return ("ok",)

    def parts(self, slot):
        return "ok", tuple((one["PartNumber"], one["Size"], one["ETag"].strip('"')) for one in self.client.list_parts(**self._at(slot)).get("Parts", []))

    def uploads(self, prefix):
        return "ok", tuple(one["Key"] for one in self.client.list_multipart_uploads(Bucket=self.bucket, Prefix=prefix).get("Uploads", []))

    def everything(self) -> dict[str, Object]:
        """The bucket as its listing, reads and tags show it."""
        found = {}
        for key in all_keys(self.client, self.bucket):
            told = self.client.get_object(Bucket=self.bucket, Key=key)
            found[key] = Object(told["Body"].read(), *self._describe(told), self.tags(key)[1])
        return found

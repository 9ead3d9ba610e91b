"""A model of S3: one bucket, and what S3 answers to any sequence of operations on it.

The rules are those of the S3 API reference and user guide. An answer is `("ok", ...)` or the HTTP status and code of an error;
where several things are wrong, a list of those: S3 does not say which is told.
"""

import hashlib
from dataclasses import dataclass, field, replace

from harness.s3 import md5

PART = 5 << 20  # the smallest that is not the last
DEFAULT_TYPE = "binary/octet-stream"


@dataclass
class Object:
    body: bytes
    etag: str
    type: str = DEFAULT_TYPE
    metadata: dict = field(default_factory=dict)
    tags: dict = field(default_factory=dict)
    parts: tuple = ()


@dataclass
class Upload:
    id: str
    key: str
    type: str
    metadata: dict
    tags: dict
    parts: dict = field(default_factory=dict)  # number -> body


@dataclass(frozen=True)
class Step:
    """An operation of a history. It names ETags and uploads by what they are, so that every server can be asked the same."""
    verb: str
    arguments: dict

    def __str__(self):
        short = {name: f"{len(value)} bytes" if isinstance(value, bytes) else value for name, value in self.arguments.items()}
        return f"{self.verb} {short}"


class Model:
    """One bucket. Every method is a step: what S3 answers, and what it changes."""

    def __init__(self):
        self.objects: dict[str, Object] = {}
        self.slots: dict[int, Upload] = {}

    def answer(self, step: Step):
        return getattr(self, step.verb)(**step.arguments)

    def etag(self, key: str, which: str) -> str:
        """The ETag that a condition names."""
        found = self.objects.get(key)
        return found.etag if found and which.endswith("same") else md5(b"another")

    def put(self, key, body, condition, type=DEFAULT_TYPE, metadata=None, tags=None):
        if condition and (refused := self._refusal(key, condition)):
            return refused
        self.objects[key] = Object(body, md5(body), type, metadata or {}, tags or {})
        return "ok", md5(body)

    def _refusal(self, key, condition):
        exists = key in self.objects
        if condition == "absent":
            return (412, "PreconditionFailed") if exists else None
        if not exists:
            return 404, "NoSuchKey"
        return (412, "PreconditionFailed") if condition == "other" else None

    def get(self, key, range, condition):
        found = self.objects.get(key)
        if not found:
            return 404, "NoSuchKey"
        if condition == "other":
            return 412, "PreconditionFailed"
        if condition == "not-same":
            return 304, "304"
        size, body = len(found.body), found.body
        if not range:
            return "ok", 200, md5(body), *self._describe(found)
        first, last = range.removeprefix("bytes=").split("-")
        start = int(first) if first else max(0, size - int(last))
        end = min(int(last), size - 1) if first and last else size - 1
        if not first and not size:
            # Satisfiable (RFC 9110, 14.1.2), and nothing that a Content-Range could name.
            return "ok", 200, md5(b""), *self._describe(found)
        if start >= size:
            return 416, "InvalidRange"
        return "ok", 206, md5(body[start:end + 1]), *self._describe(found)

    @staticmethod
    def _describe(found: Object):
        return found.etag, found.type, found.metadata

    def head(self, key):
        found = self.objects.get(key)
        return ("ok", len(found.body), *self._describe(found)) if found else (404, "404")

    def attributes(self, key):
        found = self.objects.get(key)
        return ("ok", len(found.body), found.etag, len(found.parts)) if found else (404, "NoSuchKey")

    def read_part(self, key, number, body):
        """An object that was not uploaded in parts is its own first part."""
        found = self.objects.get(key)
        if not found:
            return 404, "NoSuchKey" if body else "404"
        sizes = found.parts or (len(found.body),)
        if number > len(sizes):
            return 416, "InvalidPartNumber" if body else "416"
        start = sum(sizes[:number - 1])
        return "ok", sizes[number - 1], len(found.parts), found.etag, md5(found.body[start:start + sizes[number - 1]]) if body else None

    def delete(self, key):
        self.objects.pop(key, None)
        return ("ok",)

    def delete_many(self, keys):
        for key in keys:
            self.objects.pop(key, None)
        return "ok", sorted(keys)

    def copy(self, source, key, replace, tags, type=DEFAULT_TYPE, metadata=None):
        found = self.objects.get(source)
        # Other tags alone are no change of the object.
        refusals = [(400, "InvalidRequest")] * (source == key and not replace) + [(404, "NoSuchKey")] * (not found)
        if refusals:
            return refusals
        described = {"type": type, "metadata": metadata or {}} if replace else {"type": found.type, "metadata": found.metadata}
        self.objects[key] = Object(found.body, md5(found.body), tags=tags or found.tags, **described)
        return "ok", md5(found.body)

    def list(self, version, prefix, delimiter, after, max_keys):
        """All pages: entries and common prefixes in one order, cut where the pages end."""
        entries, at = [], {}
        for key in sorted(self.objects, key=str.encode):
            if not key.startswith(prefix) or key.encode() <= after.encode():
                continue
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end < 0:
                entries.append((key, len(self.objects[key].body), self.objects[key].etag))
                continue
            group = key[:end + len(delimiter)]
            # A marker inside a group leaves the rest of the group out.
            if group not in at and not (after and after.startswith(group)):
                entries.append((group,))
            at[group] = True
        pages = [tuple(entries[i:i + max_keys]) for i in range(0, len(entries), max_keys)] or [()]
        return "ok", tuple(pages)

    def tag(self, key, tags):
        if key not in self.objects:
            return 404, "NoSuchKey"
        self.objects[key] = replace(self.objects[key], tags=tags)
        return ("ok",)

    def tags(self, key):
        return ("ok", self.objects[key].tags) if key in self.objects else (404, "NoSuchKey")

    def untag(self, key):
        if key not in self.objects:
            return 404, "NoSuchKey"
        self.objects[key] = replace(self.objects[key], tags={})
        return ("ok",)

    def begin(self, slot, key, tags, type=DEFAULT_TYPE, metadata=None):
        self.slots[slot] = Upload("", key, type, metadata or {}, tags or {})
        return ("ok",)

    def part(self, slot, number, body):
        if slot not in self.slots:
            return 404, "NoSuchUpload"
        self.slots[slot].parts[number] = body
        return "ok", md5(body)

    def part_copy(self, slot, number, source, range):
        found = self.objects.get(source)
        refusals = [(404, "NoSuchUpload")] * (slot not in self.slots) + [(404, "NoSuchKey")] * (not found)
        if refusals:
            return refusals
        self.slots[slot].parts[number] = found.body[:100] if range and len(found.body) >= 100 else found.body
        return "ok", md5(self.slots[slot].parts[number])

    def complete(self, slot, how, condition):
        upload = self.slots.get(slot)
        if not upload:
            return 404, "NoSuchUpload"
        numbers = sorted(upload.parts)
        refused = self._refusal(upload.key, condition) if condition else None
        refusals = [refused] if refused else []
        if how == "backwards" and len(numbers) > 1:
            refusals.append((400, "InvalidPartOrder"))
        if how in ("wrong", "missing") or not numbers:
            refusals.append((400, "InvalidPart"))
        # The last part may be small; which one that is, is not sure where something else is wrong.
        if any(len(upload.parts[number]) < PART for number in (numbers if refusals else numbers[:-1])):
            refusals.append((400, "EntityTooSmall"))
        if refusals:
            return refusals
        bodies = [upload.parts[number] for number in numbers]
        etag = f"{md5(b''.join(hashlib.md5(body).digest() for body in bodies))}-{len(bodies)}"
        self.objects[upload.key] = Object(b"".join(bodies), etag, upload.type, upload.metadata, upload.tags, tuple(map(len, bodies)))
        del self.slots[slot]
        return "ok", etag

    def abort(self, slot):
        return ("ok",) if self.slots.pop(slot, None) else (404, "NoSuchUpload")

    def parts(self, slot):
        upload = self.slots.get(slot)
        if not upload:
            return 404, "NoSuchUpload"
        return "ok", tuple((number, len(body), md5(body)) for number, body in sorted(upload.parts.items()))

    def uploads(self, prefix):
        return "ok", tuple(sorted((upload.key for upload in self.slots.values() if upload.key.startswith(prefix)), key=str.encode))

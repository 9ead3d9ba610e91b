"""The same random histories of operations through the gateway in both metadata modes, MinIO and versitygw, each answer compared with what S3 says.

The two other servers keep the model honest: what it says and both of them do not would be a mistake in the model.
Where one of them deviates from S3 it is listed below; a deviation that does not show any more fails the test too.
"""

from dataclasses import replace

import pytest

from harness.history import ODD, PLAIN, Asked, History
from harness.model import Model
from harness.s3 import boto, snapshot

SEEDS = (1, 2, 3)
LENGTH = 250


def start(fleet, kind: str):
    if kind in ("xattr", "sidecar"):
        return fleet.gateway(None, "--metadata", kind)
    return fleet.minio() if kind == "minio" else fleet.versitygw(fleet.directory("buckets"))


def on_directory(step) -> bool:
    return any(str(step.arguments.get(name, "")).endswith("/") for name in ("key", "source"))


def empty_last_page(step, expected, given) -> bool:
    return step.verb == "list" and given[0] == "ok" and given[1] == (*expected[1], ())


# Server -> what it does -> whether a step shows it (of the step, S3's answer and the given one). Ours does as S3 says.
DEVIATIONS = {
    "minio": {
        "takes only ASCII in tags": lambda step, expected, given: step.verb == "tag" and given == (400, "InvalidTag") and "é" in step.arguments["tags"],
        "takes no ListObjects marker that does not begin with the prefix": lambda step, expected, given: step.verb == "list" and given == (501, "NotImplemented"),
        "says that more is to come when nothing is": empty_last_page,
        "names a group again that its marker is inside of": lambda step, expected, given: step.verb == "list" and bool(step.arguments["delimiter"] and step.arguments["after"]),
        "lists uploads by whole key only, and in another order": lambda step, expected, given: step.verb == "uploads",
        "aborts uploads that do not exist": lambda step, expected, given: step.verb == "abort" and given == ("ok",),
        "looks at ranges before conditions": lambda step, expected, given: step.verb == "get" and given == (416, "InvalidRange") and expected[0] in (304, 412),
        "takes other tags for a change of an object that is copied onto itself": lambda step, expected, given: step.verb == "copy" and given[0] == "ok" and bool(step.arguments["tags"]) and expected == [(400, "InvalidRequest")],
        "counts a plain object as one part, and no size of an empty one": lambda step, expected, given: step.verb == "attributes" and expected[0] == "ok" and expected[3] == 0 and given == ("ok", expected[1] or None, expected[2], 1),
        "names a missing version where a directory is missing": lambda step, expected, given: on_directory(step) and given == (404, "NoSuchVersion") and expected == (404, "NoSuchKey"),
    },
    "versitygw": {
        "refuses to delete a directory with objects in it": lambda step, expected, given: step.verb == "delete" and on_directory(step) and given == (400, "ErrDirectoryNotEmpty"),
        "says that more is to come when nothing is": empty_last_page,
        "gives directories a type of its own": lambda step, expected, given: on_directory(step) and "application/x-directory" in given,
    },
}


def deviation(kind: str, step, expected, given) -> str | None:
    for name, shows in DEVIATIONS.get(kind, {}).items():
        if shows(step, expected, given):
            return name
    return None


def play(asked: Asked, model: Model, history, kind: str, seen: set) -> list[str]:
    """Answers that are neither the model's nor a known deviation. After one, the model goes on from what the server has."""
    surprises = []
    for number, step in enumerate(history):
        given = asked.answer(step)
        expected = model.answer(step)
        if given == expected or isinstance(expected, list) and given in expected:
            continue
        name = deviation(kind, step, expected, given)
        if name:
            seen.add(name)
        else:
            surprises.append(f"step {number}: {step}\n  expected {str(expected)[:600]}\n  given    {str(given)[:600]}")
        # What no read tells stays as it was.
        model.objects = {key: replace(one, parts=model.objects[key].parts) if key in model.objects and model.objects[key].etag == one.etag else one
                         for key, one in asked.everything().items()}
    return surprises


def play_seed(client, seed: int, pool: tuple[str, ...], kind: str, seen: set) -> list[str]:
    bucket, model = f"history-{seed}", Model()
    client.create_bucket(Bucket=bucket)
    asked = Asked(client, bucket, model)
    surprises = [f"seed {seed}, {line}" for line in play(asked, model, History(seed, LENGTH, pool), kind, seen)]
    if asked.everything() != {key: replace(one, parts=()) for key, one in model.objects.items()}:
        surprises.append(f"seed {seed}: the bucket does not hold what the history left")
    return surprises


@pytest.mark.parametrize("kind", ["xattr", "sidecar", "minio", "versitygw"])
def test_plain_keys(fleet, kind):
    client, seen = boto(start(fleet, kind)), set()
    surprises = [line for seed in SEEDS for line in play_seed(client, seed, PLAIN, kind, seen)]
    assert not surprises, "\n".join(surprises)
    assert seen == set(DEVIATIONS.get(kind, {})), "listed and not seen"


@pytest.mark.parametrize("kind", ["xattr", "sidecar"])
def test_odd_keys(fleet, kind):
    server = start(fleet, kind)
    client = boto(server)
    surprises = [line for seed in SEEDS[:2] for line in play_seed(client, seed, PLAIN + ODD, kind, set())]
    assert not surprises, "\n".join(surprises)
    # Nothing of it is only in memory.
    before = snapshot(client)
    server.stop()
    server.start()
    assert snapshot(client) == before

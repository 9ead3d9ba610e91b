"""The gateway hands a verified volume over to its clients, on the request of whoever has the root keys."""

import json
import random
import threading
from urllib.error import URLError

import pytest
from botocore.exceptions import ClientError

from harness.cli import marker, migrate
from harness.s3 import boto, signed_post

PATH = "/.filestore/hand-over?id=run-7"


@pytest.fixture
def verified(fleet):
    """A volume that was filled from a MinIO and waits for its gateway."""
    minio = fleet.minio()
    legacy = boto(minio)
    legacy.create_bucket(Bucket="data")
    legacy.put_object(Bucket="data", Key="a", Body=b"a")
    volume = fleet.directory("volume")
    migrate("copy", minio, volume, "--id", "run-7")
    migrate("final", minio, volume, "--id", "run-7")
    assert marker(volume)["state"] == "verified"
    return volume


def test_the_root_key_opens_the_door(fleet, verified):
    users = fleet.root / "users.yaml"
    users.write_text('users:\n- {name: other, keys: [{accessKey: other, secretKey: other-secret}], grants: [{bucket: "*", access: readwrite}]}\n')
    gateway = fleet.unready_gateway(verified, "--require-marker", "run-7", "--access-file", str(users))
    client = boto(gateway)
    # The canary goes straight to the pod, which no Service leads to yet.
    client.put_object(Bucket="data", Key="canary", Body=b"canary")
    client.delete_object(Bucket="data", Key="canary")
    assert gateway.readiness()[0] == 503
    for access, secret in (("", None), ("other", "other-secret"), ("ryax", "wrong"), ("nobody", "x")):
        status, told = signed_post(gateway, PATH, access, secret)
        assert status == 403, told
    for path, code in (("/.filestore/hand-over?id=run-8", 404), ("/.filestore/hand-over", 400)):
        status, told = signed_post(gateway, path)
        assert status == code and json.loads(told)["error"], told
    assert marker(verified)["state"] == "verified" and gateway.readiness()[0] == 503

    status, told = signed_post(gateway, PATH, region="eu-west-3")
    assert status == 200, told
    first = json.loads(told)
    assert first == marker(verified)
    assert (first["state"], first["runId"]) == ("cutover", "run-7") and first["cutoverAt"]
    assert gateway.readiness()[0] == 200
    # Twice is once.
    assert signed_post(gateway, PATH) == (200, told)


def test_killed_at_any_moment_it_is_done_or_not(fleet, verified):
    file = verified / ".filestore/migration.json"
    before = file.read_bytes()
    gateway = fleet.unready_gateway(verified, "--require-marker", "run-7")
    choose = random.Random(7)
    seen = set()
    for round_number in range(12):
        def ask():
            try:
                signed_post(gateway, PATH)
            except (URLError, OSError):
                pass  # it was killed
        asker = threading.Thread(target=ask)
        asker.start()
        asker.join(choose.choice((0, 0.001, 0.003, 0.01, 0.05)))
        gateway.kill()
        asker.join()
        state = marker(verified)["state"]
        assert state in ("verified", "cutover")
        seen.add(state)
        gateway.start()
        assert gateway.readiness()[0] == (200 if state == "cutover" else 503)
        assert signed_post(gateway, PATH)[0] == 200, f"round {round_number}"
        gateway.kill()  # right after the answer: it stays handed over
        gateway.start()
        assert gateway.readiness()[0] == 200
        gateway.stop()
        file.write_bytes(before)
        gateway.start()
        assert gateway.readiness()[0] == 503


def test_an_unfinished_or_rolled_back_volume_is_refused(fleet, verified):
    file = verified / ".filestore/migration.json"
    told = marker(verified)
    gateway = fleet.unready_gateway(verified)
    client = boto(gateway)
    for state in ("copying", "rollingBack", "rolledBack"):
        file.write_text(json.dumps(told | {"state": state}))
        status, refused = signed_post(gateway, PATH)
        assert status == 409 and state in json.loads(refused)["error"], refused
        assert marker(verified)["state"] == state
        if state == "copying":
            continue
        with pytest.raises(ClientError) as error:
            client.put_object(Bucket="data", Key="b", Body=b"b")
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503, error.value
        assert client.get_object(Bucket="data", Key="a")["Body"].read() == b"a"
        gateway.stop()
        gateway.start()
        status, told_by = gateway.readiness()
        assert status == 503 and "roll" in told_by, told_by

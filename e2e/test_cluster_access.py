"""Users, quotas and rotated keys on a real cluster: programs have the Secrets that the operator makes, and the pod never restarts."""

import base64
import io
import json

from botocore.exceptions import ClientError
from minio import Minio
from minio.error import S3Error

from harness.cluster import KEYS, Endpoint, Namespace, filestore, needs_cluster, secret, until
from harness.s3 import boto
from harness.servers import ACCESS, SECRET

pytestmark = needs_cluster
KIB = 1 << 10
USERS = [
    {"name": "runner", "grants": [{"bucket": "uploads", "prefix": "runs/", "access": "readwrite"}], "secretRef": {"name": "runner-store"},
     "keys": {"accessKey": "AWS_ACCESS_KEY_ID", "secretKey": "AWS_SECRET_ACCESS_KEY", "endpoint": "AWS_ENDPOINT_URL", "bucket": "BUCKET"}},
    {"name": "reader", "grants": [{"bucket": "*", "access": "read"}]},
]


def values(namespace: Namespace, name: str) -> dict[str, str]:
    """A Secret as a pod that mounts it has it."""
    return {key: base64.b64decode(value).decode() for key, value in namespace.get("secret", name)["data"].items()}


def code(call, *arguments, **named) -> str | None:
    """Code of the error that a call ends with; None = it worked."""
    try:
        call(*arguments, **named)
    except ClientError as error:
        return error.response["Error"].get("Code")
    except S3Error as error:
        return error.code
    return None


def test_users_quotas_and_rotated_keys_without_a_restart(namespace, operator):
    spec = {"buckets": [{"name": "uploads", "quota": "100Ki"}], "access": {"users": USERS}}
    namespace.apply(secret(), filestore(**spec))
    namespace.wait("Ready=True/Serving")
    pod = namespace.pods("filestore.ryax.tech/name=files")[0]["metadata"]
    host = f"{namespace.get('service', 'files')['spec']['clusterIP']}:9000"

    def signed(access: str, key: str):
        return boto(Endpoint(host, access, key))

    def spec_is(**change):
        namespace.apply(filestore(**{**spec, **change}))
        namespace.wait("Ready=True/Serving")

    # A program has all that it needs in its Secret, under the names that it asked for.
    mine = values(namespace, "runner-store")
    assert set(mine) == set(USERS[0]["keys"].values())
    assert (mine["AWS_ENDPOINT_URL"], mine["BUCKET"]) == (f"http://files.{namespace.name}:9000", "uploads")
    runner = Minio(host, access_key=mine["AWS_ACCESS_KEY_ID"], secret_key=mine["AWS_SECRET_ACCESS_KEY"], secure=False)

    def put(client: Minio, key: str, size: int) -> str | None:
        return code(client.put_object, "uploads", key, io.BytesIO(b"x" * size), size)

    assert put(runner, "runs/1", 60 * KIB) is None
    assert runner.get_object("uploads", "runs/1").read() == b"x" * 60 * KIB
    assert put(runner, "other/1", 1) == "AccessDenied"
    assert code(runner.get_object, "uploads", "other/1") == "AccessDenied"
    assert code(lambda: list(runner.list_objects("uploads"))) == "AccessDenied"
    theirs = values(namespace, "files-reader")
    reader = signed(theirs["access-key"], theirs["secret-key"])
    assert reader.head_object(Bucket="uploads", Key="runs/1")["ContentLength"] == 60 * KIB
    assert code(reader.put_object, Bucket="uploads", Key="runs/2", Body=b"x") == "AccessDenied"
    assert code(signed(theirs["access-key"], "wrong").list_buckets) == "SignatureDoesNotMatch"

    # The quota holds; and one below what is there takes nothing away.
    assert put(runner, "runs/2", 60 * KIB) == "XMinioAdminBucketQuotaExceeded"
    root = signed(ACCESS, SECRET)
    assert code(root.put_object, Bucket="uploads", Key="root", Body=b"x" * 60 * KIB) == "XMinioAdminBucketQuotaExceeded"
    assert put(runner, "runs/2", 40 * KIB) is None

    # Root and a user are rotated and another user is removed, all at once.
    namespace.apply(secret(**KEYS | {"root-password": "another-secret-of-root"}))
    namespace.apply(secret("runner-store", AWS_ACCESS_KEY_ID="runner-2", AWS_SECRET_ACCESS_KEY="another secret"))
    spec_is(access={"users": USERS[:1]}, buckets=[{"name": "uploads", "quota": "50Ki"}])
    renewed, second = signed(ACCESS, "another-secret-of-root"), signed("runner-2", "another secret")
    until("root's new key works", lambda: code(renewed.list_buckets) is None, 20)
    until("the user's new key works", lambda: code(second.head_object, Bucket="uploads", Key="runs/1") is None, 20)
    until("the removed user is refused", lambda: code(reader.list_buckets) == "InvalidAccessKeyId", 20)
    # Both work, …
    assert code(root.list_buckets) is None
    assert put(runner, "runs/2", 1) is None, "smaller than what it replaces"
    assert put(runner, "runs/3", 1) == "XMinioAdminBucketQuotaExceeded"
    # … then only the new ones. The overlap is one hour; a shorter one holds for what is in it already.
    spec_is(access={"users": USERS[:1], "overlapSeconds": 1})
    until("root's old key is refused", lambda: code(root.list_buckets) == "SignatureDoesNotMatch", 30)
    until("the user's old key is refused", lambda: code(runner.stat_object, "uploads", "runs/1") in ("InvalidAccessKeyId", "AccessDenied"), 30)
    assert code(renewed.list_buckets) is None
    assert code(second.delete_object, Bucket="uploads", Key="runs/1") is None

    # What others change in the Secret of the gateway is put back; a Secret of a user that is deleted is made again.
    namespace("patch", "secret", "files-access", "--type=merge", "-p", '{"data":{"access.json":"e30="}}')
    until("it is told", lambda: any("Secret files-access: data" in note and '"kubectl' in note for reason, note in namespace.events() if reason == "DriftCorrected"))
    assert "runner-2" in values(namespace, "files-access")["access.json"]
    # Nobody becomes root by writing there, not even for the overlap.
    spec_is(access={"users": USERS[:1]})
    before = values(namespace, "files-access")
    intruder = {key: base64.b64encode(value.encode()).decode() for key, value in (("root-user", "intruder"), ("root-password", "known to the intruder"))}
    namespace("patch", "secret", "files-access", "--type=merge", "-p", json.dumps({"data": intruder}))
    until("root's keys are put back", lambda: values(namespace, "files-access") == before)
    until("the intruder is refused", lambda: code(signed("intruder", "known to the intruder").list_buckets) == "InvalidAccessKeyId", 30)
    assert code(renewed.list_buckets) is None
    namespace("delete", "secret", "runner-store")
    until("it is made again", lambda: "runner-store" in namespace("get", "secrets", "-o", "name"))
    again = values(namespace, "runner-store")
    third = signed(again["AWS_ACCESS_KEY_ID"], again["AWS_SECRET_ACCESS_KEY"])
    until("its keys work", lambda: code(third.head_object, Bucket="uploads", Key="runs/2") is None, 20)

    now = namespace.pods("filestore.ryax.tech/name=files")
    assert [one["metadata"]["uid"] for one in now] == [pod["uid"]]
    assert now[0]["status"]["containerStatuses"][0]["restartCount"] == 0
    assert set(values(namespace, "runner-store")) == set(USERS[0]["keys"].values())
    until("nothing is written any more", operator.quiet)


def test_what_versitygw_lacks_is_said(namespace, operator):
    engine = {"engine": "versitygw", "versitygw": {"image": "localhost/versitygw:none"}}
    namespace.apply(secret())
    for field, change, lacks in [
        ("spec.access.users", {"access": {"users": USERS}}, "no users"),
        ("spec.buckets[0].quota", {"buckets": [{"name": "uploads", "quota": "1Gi"}]}, "no quotas"),
        ("spec.access.overlapSeconds", {"access": {"overlapSeconds": 60}}, "no rotation without a restart"),
    ]:
        namespace.apply(filestore(**engine, **change))
        found = namespace.wait("Stalled=True/EngineLacks", seconds=30)
        message = next(one["message"] for one in found["status"]["conditions"] if one["type"] == "Stalled")
        assert message.startswith(field) and lacks in message and "use engine bundled" in message
    assert "filestore.ryax.tech" not in namespace("get", "deployments,secrets", "-o", "yaml")

"""Taking over from the MinIO of Bitnami's chart on a real cluster; its clients go on under the old name with the old keys."""

import pytest

from harness.cluster import KEYS, filestore, needs_cluster, needs_minio, secret
from harness.legacy import NAME, SECRET, SELECTOR, Legacy
from harness.s3 import describe, pattern, snapshot
from test_takeover import assert_same, fill

pytestmark = [needs_cluster, needs_minio, pytest.mark.minutes(1)]

# The pod wears what the legacy Service selects.
TAKES_THE_NAME = {"labels": SELECTOR}


def takes_over(**source) -> dict:
    return filestore(credentials={"secretRef": {"name": SECRET}}, pod=TAKES_THE_NAME, migration={"id": "first", "source": source})


@pytest.fixture
def legacy(namespace) -> Legacy:
    found = Legacy(namespace)
    fill(found.client())
    return found


def marker(namespace) -> dict:
    """The condition `Migrated` of the Filestore."""
    return next(one for one in namespace.get("filestore", "files")["status"]["conditions"] if one["type"] == "Migrated")


def test_online_then_the_old_one_is_scaled_down(namespace, operator, legacy):
    objects, claim = snapshot(legacy.client()), legacy.claim()
    namespace.apply(takes_over(endpoint=f"http://{NAME}:9000"))
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    legacy.scale(0)
    drive = legacy.drive()

    # The same Service object, the same keys, another server.
    assert_same(snapshot(legacy.client()), objects)
    assert "MinIO" not in legacy.client().list_buckets()["ResponseMetadata"]["HTTPHeaders"].get("server", "")
    assert legacy.claim() == claim

    # The old one is gone: a new pod does not copy again, and serves what clients changed.
    client = legacy.client()
    client.put_object(Bucket="ryax-filestore", Key="after", Body=b"the move")
    client.delete_object(Bucket="ryax-filestore", Key="executions-data/1")
    after = snapshot(client)
    namespace.replace_pod("files")
    assert_same(snapshot(legacy.client()), after)
    assert legacy.drive() == drive


def test_offline_from_the_claim_of_the_stopped_one(namespace, operator, legacy):
    client = legacy.client()
    objects = snapshot(client)
    # A key that MinIO's own listings hide lies on the drive all the same.
    objects["ryax-filestore"]["shadow/p/child"] = describe(client, "ryax-filestore", "shadow/p/child")
    legacy.scale(0)
    drive, claim = legacy.drive(), legacy.claim()
    assert any(path.endswith("/.root_password") for path in drive), "as Bitnami leaves it"

    namespace.apply(takes_over(existingClaim=NAME))
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    assert_same(snapshot(legacy.client()), objects)

    # Read, and nothing else; Helm and Argo CD are told to leave it.
    assert legacy.drive() == drive
    assert legacy.claim() == claim
    kept = namespace.get("pvc", NAME)["metadata"]["annotations"]
    assert kept["helm.sh/resource-policy"] == "keep"
    assert set(kept["argocd.argoproj.io/sync-options"].split(",")) >= {"Prune=false", "Delete=false"}

    # Pods inside the cluster know the name as they did.
    answer = namespace.shell(f"wget -q -O - http://{NAME}:9000/ryax-filestore/executions-data/1 2>&1 || true")
    assert "403" in answer, answer

    # The Filestore goes and comes again: the data stays, nothing is copied again.
    legacy.client().put_object(Bucket="ryax-filestore", Key="after", Body=b"the move")
    after = snapshot(legacy.client())
    namespace("delete", "filestore", "files")
    namespace.until("the pod goes", lambda: not namespace.pods("filestore.ryax.tech/name=files"))
    namespace.apply(takes_over(existingClaim=NAME))
    namespace.wait("Ready=True/Serving")
    assert marker(namespace)["reason"] == "Completed"
    assert_same(snapshot(legacy.client()), after)


def test_while_the_source_is_away_nothing_starts_empty(namespace, operator, legacy):
    legacy.scale(0)
    namespace.apply(takes_over(endpoint=f"http://{NAME}:9000"))
    namespace.wait("Migrated=False/SourceUnreachable", seconds=60)
    assert namespace.get("filestore", "files")["status"]["phase"] != "Ready"
    legacy.scale(1)
    objects = snapshot(legacy.client())
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    legacy.scale(0)
    assert_same(snapshot(legacy.client()), objects)


def test_corrected_keys_are_tried_at_once(namespace, operator, legacy):
    """In another pod: the one that is refused asks on with the keys that it was started with."""
    objects = snapshot(legacy.client())
    namespace.apply(secret("legacy-keys", **{"root-user": "nobody", "root-password": "not-the-password"}))
    namespace.apply(takes_over(endpoint=f"http://{NAME}:9000", credentials={"secretRef": {"name": "legacy-keys"}}))
    namespace.wait("Migrated=False/CredentialsRefused", seconds=60)
    failed = namespace.pods("filestore.ryax.tech/name=files")[0]["metadata"]["uid"]
    namespace.apply(secret("legacy-keys", **KEYS))
    namespace.wait("Migrated=True/Completed", seconds=60)
    namespace.wait("Ready=True/Serving")
    assert failed not in [pod["metadata"]["uid"] for pod in namespace.pods("filestore.ryax.tech/name=files")]
    legacy.scale(0)
    assert_same(snapshot(legacy.client()), objects)


@pytest.mark.parametrize("way", ["online", "offline"])
def test_a_take_over_whose_pod_is_killed_goes_on(namespace, operator, legacy, way):
    """As soon as it copies; the new pod may meet the old one on the volume, which the kubelet has not stopped yet."""
    objects = snapshot(legacy.client())
    if way == "offline":
        objects["ryax-filestore"]["shadow/p/child"] = describe(legacy.client(), "ryax-filestore", "shadow/p/child")
        legacy.scale(0)
    namespace.apply(takes_over(**({"endpoint": f"http://{NAME}:9000"} if way == "online" else {"existingClaim": NAME})))

    def begun() -> list[tuple[str, bool]]:
        """Pods whose copy has begun, and whether it is still at work."""
        pods = namespace.pods("filestore.ryax.tech/name=files")
        states = [(pod["metadata"]["name"], one["state"]) for pod in pods for one in pod["status"].get("initContainerStatuses", []) if one["name"] == "migrate"]
        return [(name, "running" in state) for name, state in states if "waiting" not in state]

    for _ in range(2):
        name, at_work = namespace.until("a copy begins", begun, 60)[0]
        if at_work:  # else it was faster than we are
            namespace("delete", "pod", name, "--grace-period=0", "--force")
    namespace.wait("Migrated=True/Completed", seconds=180)
    namespace.wait("Ready=True/Serving")
    if way == "online":
        legacy.scale(0)
    assert_same(snapshot(legacy.client()), objects)

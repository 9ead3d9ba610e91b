"""The operator on a real cluster: see harness/cluster.py."""

import json
import time

import pytest
import yaml

from harness.cluster import KEYS, REPO, Namespace, client, filestore, needs_cluster, secret

pytestmark = needs_cluster


def test_a_fresh_store_serves_is_kept_as_it_is_and_outlives_its_resource(namespace, operator):
    namespace.apply(secret(), filestore(buckets=[{"name": "uploads"}]))
    begun = time.monotonic()
    found = namespace.wait("Ready=True/Serving")
    print(f"Ready after {time.monotonic() - begun:.1f} s")
    assert found["status"]["phase"] == "Ready"
    assert found["status"]["endpoint"] == f"http://files.{namespace.name}:9000"
    claim = namespace.get("pvc", "files")
    assert "ownerReferences" not in claim["metadata"]

    s3 = client(namespace)
    s3.put_object(Bucket="uploads", Key="a/b", Body=b"hello", ContentType="text/x-test")
    answer = s3.get_object(Bucket="uploads", Key="a/b")
    assert (answer["Body"].read(), answer["ContentType"]) == (b"hello", "text/x-test")

    # What people see.
    line = namespace("get", "fst", "files").splitlines()
    assert line[0].split() == ["NAME", "PHASE", "READY", "COPIED%", "USED%", "AGE"]
    assert line[1].split()[:3] == ["files", "Ready", "True"]
    namespace.until("used space is told", lambda: namespace.get("filestore", "files")["status"]["storage"].get("usedPercent") is not None)

    # Drift: replicas and a variable go back, and it is said who it was.
    for replicas in ("2", "0"):
        namespace("scale", "deployment", "files", f"--replicas={replicas}")
        namespace.until("replicas are put back", lambda: namespace.get("deployment", "files")["spec"]["replicas"] == 1)
    namespace.until("it is told", lambda: any('spec.replicas, changed by "kubectl"' in note for reason, note in namespace.events() if reason == "DriftCorrected"))
    namespace("set", "env", "deployment/files", "-c", "prepare", "FILESTORE_OWNER=intruder")
    wanted = {"secretKeyRef": {"name": "keys", "key": "root-user"}}
    namespace.until("the variable is put back", lambda: any(
        variable["name"] == "FILESTORE_OWNER" and variable.get("valueFrom", {}).get("secretKeyRef", {}).get("key") == wanted["secretKeyRef"]["key"] and "value" not in variable
        for variable in namespace.get("deployment", "files")["spec"]["template"]["spec"]["initContainers"][0]["env"]))
    namespace("delete", "service", "files")
    namespace.until("the Service is back", lambda: "files" in namespace("get", "service", "-o", "name"))

    # Nothing to do: nothing is written.
    namespace.wait("Ready=True/Serving")
    namespace.until("the store is quiet", operator.quiet)

    # Gone, but for the data.
    uid = claim["metadata"]["uid"]
    namespace("delete", "filestore", "files")
    namespace.until("the Deployment goes", lambda: "files" not in namespace("get", "deployment", "-o", "name"))
    note = namespace.until("it is told where the data is", lambda: [note for reason, note in namespace.events() if reason == "ClaimRetained"])[0]
    assert f"kubectl delete pvc files --namespace {namespace.name}" in note
    namespace.apply(filestore(buckets=[{"name": "uploads"}]))
    namespace.wait("Ready=True/Serving")
    assert namespace.get("pvc", "files")["metadata"]["uid"] == uid
    assert client(namespace).get_object(Bucket="uploads", Key="a/b")["Body"].read() == b"hello"
    operator.stop()


def test_a_missing_secret_is_said_and_noticed_when_it_comes(namespace, operator):
    namespace.apply(filestore(), filestore("other", credentials={"secretRef": {"name": "keys"}, "keys": {"accessKey": "user", "secretKey": "pass word".replace(" ", "-")}}))
    namespace.wait("Stalled=True/SecretMissing", seconds=30)
    namespace.apply(secret())
    namespace.wait("Ready=True/Serving")
    # The same Secret lacks the names that the other one asks for.
    found = namespace.wait("Stalled=True/SecretKeyMissing", "other", seconds=30)
    assert "root-password, root-user" in next(one["message"] for one in found["status"]["conditions"] if one["type"] == "Stalled")
    namespace.apply(secret(**KEYS, user="u-ser", **{"pass-word": "0123456789ab"}))
    namespace.wait("Ready=True/Serving", "other")


def test_suspended_and_started_again_by_another_operator(namespace, operator):
    namespace.apply(secret(), filestore(suspend=True))
    namespace.wait("Ready=False/Suspended", seconds=30)
    operator.stop()
    operator.start()
    namespace("patch", "filestore", "files", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    namespace.wait("Ready=True/Serving")


# What must be refused, with what is said; `spec` replaces fields of a good one.
REFUSED = {
    "neither size nor claim": ({"storage": {}}, "exactly one of size or existingClaim"),
    "both size and claim": ({"storage": {"size": "1Gi", "existingClaim": "x"}}, "exactly one of size or existingClaim"),
    "class beside a claim": ({"storage": {"existingClaim": "x", "storageClassName": "c"}}, "belong to a new claim"),
    "tag latest": ({"image": "x/y:latest"}, "tag latest is not allowed"),
    "engine without its image": ({"engine": "versitygw"}, "versitygw is set exactly when engine is versitygw"),
    "unknown engine": ({"engine": "other"}, 'supported values: "bundled", "versitygw"'),
    "unknown field": ({"enigne": "bundled"}, 'unknown field "spec.enigne"'),
    "ids on OpenShift": ({"security": {"profile": "openshift", "runAsUser": 1}}, "profile openshift sets no ids"),
    "root": ({"security": {"runAsUser": 0}}, "should be greater than or equal to 1"),
    "bucket with capitals": ({"buckets": [{"name": "Uploads"}]}, "should match"),
    "a bucket that looks like an address": ({"buckets": [{"name": "1.2.3.4"}]}, "no two dots in a row and is no IP address"),
    "a bucket with two dots in a row": ({"buckets": [{"name": "up..loads"}]}, "no two dots in a row and is no IP address"),
    "its own name as a further one": ({"service": {"compatibility": [{"name": "files"}]}}, "holds further names, not that of the Filestore itself"),
    "a copy from itself by address": ({"migration": {"source": {"endpoint": "http://files:9000"}}}, "migration.source.endpoint is the new store itself"),
    "a copy from itself by Service": ({"migration": {"source": {"service": "files"}}}, "migration.source.service is the new store itself"),
    "a pause before the stop": ({"pod": {"preStopSleepSeconds": 60}}, 'unknown field "spec.pod.preStopSleepSeconds"'),
    "policies in the words of S3": ({"access": {"users": [{"name": "a", "policies": [{"bucket": "uploads", "allow": ["read"]}]}]}}, 'unknown field "spec.access.users[0].policies"'),
    "no time to stop": ({"pod": {"terminationGracePeriodSeconds": 0}}, "should be greater than or equal to 1"),
    "a bucket twice": ({"buckets": [{"name": "uploads"}, {"name": "uploads", "quota": "1Gi"}]}, "Duplicate value"),
    "a user twice": ({"access": {"users": [{"name": "a", "grants": [{"bucket": "*", "access": "read"}]}] * 2}}, "Duplicate value"),
    "a user without grants": ({"access": {"users": [{"name": "a", "grants": []}]}}, "should have at least 1 items"),
    "a grant of what there is not": ({"access": {"users": [{"name": "a", "grants": [{"bucket": "*", "access": "readonly"}]}]}}, 'supported values: "read", "write", "readwrite"'),
    "an overlap in words": ({"access": {"overlapSeconds": "1h"}}, "must be of type integer"),
    "mode online without endpoint": ({"migration": {"mode": "online"}}, "mode online needs source.endpoint"),
    "mode offline without claim": ({"migration": {"mode": "offline", "source": {"endpoint": "http://m:9000"}}}, "mode offline needs source.existingClaim"),
    "two sources": ({"migration": {"source": {"endpoint": "http://m:9000", "existingClaim": "x"}}}, "at most one of endpoint, existingClaim, service and workload"),
    "path of an endpoint": ({"migration": {"source": {"endpoint": "http://m:9000", "path": "x"}}}, "path belongs to existingClaim"),
    "keys of a claim": ({"migration": {"source": {"existingClaim": "x", "credentials": {"secretRef": {"name": "s"}}}}}, "a drive needs no credentials"),
    "two names of one source": ({"migration": {"source": {"service": "a", "workload": {"kind": "Deployment", "name": "b"}}}}, "at most one of endpoint, existingClaim, service and workload"),
    "workload of another kind": ({"migration": {"source": {"workload": {"kind": "DaemonSet", "name": "b"}}}}, 'supported values: "Deployment", "StatefulSet"'),
    "approval of a take-over from outside": ({"migration": {"cutover": "manual", "source": {"endpoint": "http://m:9000"}}}, "cutover, approve and rollback go with a legacy store in the cluster"),
    "approval of no plan": ({"migration": {"approve": "not-a-plans-hash"}}, "should match"),
    "way back of another migration": ({"migration": {"id": "a", "rollback": {"requestID": "b"}}}, "rollback.requestID must be the id of the migration"),
    "workers for a take-over from outside": ({"migration": {"shards": 3, "source": {"endpoint": "http://m:9000"}}}, "shards go with a legacy store in the cluster"),
    "workers for a take-over from a claim": ({"migration": {"shards": 3, "source": {"existingClaim": "x"}}}, "shards go with a legacy store in the cluster"),
    "too many workers": ({"migration": {"shards": 17}}, "should be less than or equal to 16"),
    "workers on a volume of one pod": ({"storage": {"size": "1Gi", "accessModes": ["ReadWriteOncePod"]}, "migration": {"shards": 2}}, "needs a volume that several pods can mount"),
    "a bandwidth of nothing": ({"migration": {"bandwidth": "0Mi"}}, "spec.migration.bandwidth in body should match"),
    "a bandwidth in words": ({"migration": {"bandwidth": "20MB/s"}}, "spec.migration.bandwidth in body should match"),
    "a deadline without unit": ({"migration": {"deadline": "90"}}, "spec.migration.deadline in body should match"),
    "a deadline in days": ({"migration": {"deadline": "2d"}}, "spec.migration.deadline in body should match"),
    "fewer than no deletions": ({"migration": {"maxDelete": -1}}, "should be greater than or equal to 0"),
    "a legacy bucket twice": ({"migration": {"buckets": [{"name": "one"}, {"name": "one", "target": "two"}]}}, "Duplicate value"),
    "two legacy buckets for one name": ({"migration": {"buckets": [{"name": "one"}, {"name": "two", "target": "one"}]}}, "two buckets of migration.buckets would get one name"),
    "not a URL": ({"migration": {"source": {"endpoint": "minio:9000"}}}, "should match"),
    "a name that no Service may have": ({"service": {"compatibility": [{"name": "Old_Name"}]}}, "should match"),
    "too many names": ({"service": {"compatibility": [{"name": f"n{number}"} for number in range(5)]}}, "must have at most 4 items"),
    "a warning above the critical alert": ({"monitoring": {"prometheusRule": {"enabled": True, "capacityWarnPercent": 95}}}, "should be less than or equal to 94"),
    "an interval without unit": ({"monitoring": {"serviceMonitor": {"enabled": True, "interval": "30"}}}, "should match"),
    "a typo in Kubernetes' own fields": ({"placement": {"affinity": {"nodeAfinity": {}}}}, 'unknown field "spec.placement.affinity.nodeAfinity"'),
    "a typo in a peer": ({"networkPolicy": {"allowFrom": [{"podSelecter": {}}]}}, 'unknown field "spec.networkPolicy.allowFrom[0].podSelecter"'),
    "HTTPS without a certificate": ({"tls": {}}, "spec.tls.secretRef: Required value"),
    "HTTPS with a certificate of no name": ({"tls": {"secretRef": {"name": ""}}}, "spec.tls.secretRef.name in body should"),
    "a site without name": ({"site": {"endpoint": "https://files.example"}}, "spec.site.name: Required value"),
    "no credentials": ({"credentials": None}, "spec.credentials: Required value"),
}

# Changes that must be refused: the fields before and after.
CHANGES = {
    "shrinking": ({"storage": {"size": "20Gi"}}, {"storage": {"size": "10Gi"}}, "size can grow, never shrink"),
    "shrinking in another unit": ({"storage": {"size": "20Gi"}}, {"storage": {"size": "20000Mi"}}, "size can grow, never shrink"),
    "another class": ({"storage": {"size": "1Gi", "storageClassName": "a"}}, {"storage": {"size": "1Gi", "storageClassName": "b"}}, "storageClassName of a claim cannot change"),
    "a class for a claim that has the default": ({"storage": {"size": "1Gi"}}, {"storage": {"size": "1Gi", "storageClassName": "b"}}, "storageClassName of a claim cannot change"),
    "other access modes": ({"storage": {"size": "1Gi"}}, {"storage": {"size": "1Gi", "accessModes": ["ReadWriteMany"]}}, "accessModes of a claim cannot change"),
    "another metadata mode": ({"storage": {"size": "1Gi", "metadata": "xattr"}}, {"storage": {"size": "1Gi", "metadata": "sidecar"}}, "metadata is fixed"),
}


# Sources of one migration, and of another one.
SOURCES = [{"endpoint": "http://other:9000"}, {"existingClaim": "drive"}, {"existingClaim": "drive", "path": "sub"}, {"service": "minio"}, {"workload": {"kind": "Deployment", "name": "minio"}}]


def dry_run(namespace: Namespace, found: dict) -> str:
    return namespace("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(found), check=False)


@pytest.mark.parametrize("what", REFUSED)
def test_the_api_server_refuses(shared, what):
    spec, message = REFUSED[what]
    found = filestore(**spec)
    found["spec"] = {name: value for name, value in found["spec"].items() if value is not None}
    assert message in dry_run(shared, found)


@pytest.mark.parametrize("what", CHANGES)
def test_the_api_server_refuses_a_change(shared, what):
    before, after, message = CHANGES[what]
    name = what.replace(" ", "-")[:40].strip("-")
    shared.apply(filestore(name, **before))
    assert message in dry_run(shared, filestore(name, **after))


def test_the_source_of_a_migration_that_has_begun_stays(shared):
    def spec(source: dict, **migration) -> dict:
        return filestore("begun", migration={"id": "first", "source": source, **migration})

    def refused(found: dict) -> bool:
        return "migration.source cannot change once objects were copied from it" in dry_run(shared, found)

    before = {"endpoint": "http://legacy:9000"}
    shared.apply(spec(before))
    # One that was wrong from the start may be corrected.
    assert not any(refused(spec(source)) for source in SOURCES)
    shared("patch", "filestore", "begun", "--subresource=status", "--type=merge", "-p", '{"status":{"migration":{"id":"first","objects":7}}}')
    assert all(refused(spec(source)) for source in SOURCES)
    # Everything else may change, and another migration may have another source.
    for found in (spec(before | {"credentials": {"secretRef": {"name": "other"}}}), spec(before, parallelism=4), spec(SOURCES[0], id="second"), filestore("begun")):
        assert "configured" in dry_run(shared, found)


def test_https_is_switched_on_after_the_cut_over(shared):
    def switched_on(**migration) -> str:
        return dry_run(shared, filestore("switched", migration=migration, tls={"secretRef": {"name": "files-tls"}}))

    def status_is(text: str) -> str:
        return shared("patch", "filestore", "switched", "--subresource=status", "--type=merge", "-p", text)

    refused = "clients of the legacy store use plain HTTP: remove tls until it is handed over"
    shared.apply(filestore("switched", migration={}))
    # Nothing is known of a legacy store yet; the operator looks before it begins.
    assert "configured" in switched_on()
    found = {"kind": "Deployment", "workload": {"name": "minio"}, "claim": {"name": "minio"}, "image": "m:1"}
    status_is(json.dumps({"status": {"migration": {"id": "switched", "source": found}}}))
    assert refused in switched_on() and refused in switched_on(cutover="manual")
    assert "configured" in dry_run(shared, filestore("switched", tls={"secretRef": {"name": "files-tls"}}))
    status_is('{"status":{"migration":{"handedOver":"switched"}}}')
    assert "configured" in switched_on()
    # Then what happens to the legacy store does not keep the operator from telling it.
    shared.apply(filestore("switched", migration={}, tls={"secretRef": {"name": "files-tls"}}))
    assert "patched" in status_is('{"status":{"migration":{"handedOver":null}}}')


@pytest.mark.parametrize("file", ["operator/tests/golden/offline.yaml", "operator/tests/golden/online.yaml", "operator/tests/golden/fresh.yaml", "operator/tests/golden/versitygw.yaml", "operator/tests/golden/tls.yaml", "operator/tests/golden/tls-versitygw.yaml", "examples/fresh.yaml", "examples/online.yaml", "examples/takeover.yaml", "examples/cutover.yaml", "examples/users.yaml"])
def test_the_api_server_takes_our_examples_as_they_are(shared, file):
    """Not one field is added, else GitOps tools would show it as a difference for ever."""
    documents = yaml.safe_load_all((REPO / file).read_text())
    found = next(document for document in documents if document and document["kind"] == "Filestore")
    found["metadata"].pop("namespace", None)
    told = json.loads(shared("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", stdin=json.dumps(found)))
    assert told["spec"] == found["spec"]
    assert "status" not in told


def test_sizes_may_grow(shared):
    shared.apply(filestore("grows", storage={"size": "1Gi"}))
    assert "configured" in dry_run(shared, filestore("grows", storage={"size": "1500Mi"}))


# What every pod has, whatever the spec says: by name, as the API server has it.
POD = {"automountServiceAccountToken": False, "enableServiceLinks": False}
CONTAINER = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
USERS = {"fresh": (1200, 1200, 1200), "online": (1200, 1200, 1200), "offline": (1300, 1301, 1302), "versitygw": (None, None, None),
         "tls": (1200, 1200, 1200), "tls-versitygw": (1200, 1200, 1200)}


@pytest.mark.parametrize("golden", USERS)
def test_the_api_server_takes_what_is_rendered(shared, golden):
    """No field that it does not know and no value that it refuses; and what is enforced is there. The kinds of Prometheus: test_cluster_monitoring."""
    rendered = json.loads((REPO / f"operator/tests/golden/{golden}.json").read_text())
    made = [rendered[name] for name in ("claim", "serviceAccount", "service", "deployment") if rendered[name]] + rendered.get("extras", [])
    told = {}
    for found in made:
        found["metadata"].pop("namespace", None)
        if not found["apiVersion"].startswith("monitoring.coreos.com/"):
            told[found["kind"]] = json.loads(shared("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", stdin=json.dumps(found)))
    spec = told["Deployment"]["spec"]
    assert spec["replicas"] == (0 if golden == "offline" else 1), "suspended, or one"
    assert spec["strategy"] == {"type": "Recreate"}
    pod = spec["template"]["spec"]
    assert {name: pod.get(name) for name in POD} == POD
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True and context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert tuple(context.get(name) for name in ("runAsUser", "runAsGroup", "fsGroup")) == USERS[golden]
    assert context.get("fsGroupChangePolicy") == (None if golden == "versitygw" else "OnRootMismatch")
    for container in pod.get("initContainers", []) + pod["containers"]:
        assert {name: container["securityContext"].get(name) for name in CONTAINER} == CONTAINER, container["name"]
        assert not container["securityContext"].get("privileged"), container["name"]
    server, = pod["containers"]
    if golden.endswith("versitygw"):
        # It would log every request, close each connection, and serve lost+found as a bucket.
        variables = {variable["name"]: variable.get("value") for variable in server["env"]}
        wanted = {"VGW_BACKEND_ARG": "/data/s3", "VGW_KEEP_ALIVE": "true", "VGW_QUIET": "true", "VGW_REGION": "us-east-1"}
        assert {name: variables[name] for name in wanted} == wanted
    else:
        assert server["args"][:2] == ["gateway", "/data"]
        assert server["args"][server["args"].index("--region") + 1] == ("eu-west-3" if golden == "offline" else "us-east-1")
    claim = told.get("PersistentVolumeClaim")
    assert claim is None or "ownerReferences" not in claim["metadata"] and claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"

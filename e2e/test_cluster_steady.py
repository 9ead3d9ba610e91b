"""A store in steady state on a real cluster: whatever others change goes back, nothing else is written, engines and resources come and go and the data stays."""

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime

import pytest
import yaml

from harness import fields
from harness.apiserver import ApiServer
from harness.cluster import IMAGE, REPO, Namespace, Operator, client, filestore, kubectl, needs_cluster, secret, until
from harness.s3 import pattern, put_multipart, snapshot

pytestmark = [needs_cluster, pytest.mark.usefixtures("prometheus_kinds"), pytest.mark.xdist_group("prometheus_kinds"), pytest.mark.minutes(4)]

VERSITYGW_IMAGE = os.environ.get("FILESTORE_E2E_VERSITYGW_IMAGE", "")
MANAGER = "filestore-operator"
KINDS = {"Deployment": "apis/apps/v1/{}/deployments", "Service": "api/v1/{}/services", "ServiceAccount": "api/v1/{}/serviceaccounts", "ConfigMap": "api/v1/{}/configmaps",
         "NetworkPolicy": "apis/networking.k8s.io/v1/{}/networkpolicies", "PersistentVolumeClaim": "api/v1/{}/persistentvolumeclaims", "Secret": "api/v1/{}/secrets",
         "ServiceMonitor": "apis/monitoring.coreos.com/v1/{}/servicemonitors", "PrometheusRule": "apis/monitoring.coreos.com/v1/{}/prometheusrules"}
# Made once and not kept as they are: a Job is what was tried, an event what was told, the lease is written by whoever has it.
NOT_KEPT = {"jobs", "events", "leases"}
# Everything. Suspended: the objects are all there, and no pod starts anew for each change.
EVERYTHING = {
    "suspend": True, "tls": {"secretRef": {"name": "files-tls"}}, "buckets": [{"name": "uploads"}], "site": {"name": "main"}, "monitoring": {"dashboard": {"enabled": True}, "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    "networkPolicy": {"enabled": True, "allowFrom": [{"podSelector": {"matchLabels": {"app": "client"}}}]},
    "pod": {"annotations": {"team": "storage"}, "resources": {"requests": {"memory": "32Mi"}, "limits": {"memory": "256Mi"}}},
    "placement": {"nodeSelector": {"kubernetes.io/os": "linux"}, "priorityClassName": "system-cluster-critical"},
}
# What Helm and Argo CD write on a Filestore that they made; on anything else they would take it for theirs and prune it.
TRACKED = {"app.kubernetes.io/instance": "release", "argocd.argoproj.io/instance": "app"}
VERSITYGW = {"engine": "versitygw", "versitygw": {"image": "registry.example/versitygw:1"}}
BUNDLED = [f"store-{number}" for number in range(5)]
OTHER_ENGINE = [f"store-{number}" for number in range(5, 8)]
STORES = BUNDLED + OTHER_ENGINE


def certificate() -> dict:
    """The Secret with it that EVERYTHING names."""
    documents = yaml.safe_load_all((REPO / "operator/tests/golden/tls.yaml").read_text())
    return next(one for one in documents if one.get("type") == "kubernetes.io/tls") | {"metadata": {"name": "files-tls"}}


class Refused(Exception):
    """The API server does not take a change."""


class Objects:
    """Objects of a namespace, by requests to the API server without a process for each."""

    def __init__(self, address: str, namespace: str):
        self.address, self.namespace = address, namespace

    def ask(self, method: str, path: str, body=None) -> dict:
        request = urllib.request.Request(f"{self.address}/{path}", method=method, data=body and json.dumps(body).encode(), headers={"Content-Type": "application/json-patch+json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from error

    def path(self, kind: str, name: str = "") -> str:
        return f"{KINDS[kind].format(f'namespaces/{self.namespace}')}/{name}".rstrip("/")

    def get(self, kind: str, name: str) -> dict:
        return self.ask("GET", self.path(kind, name))

    def patch(self, kind: str, name: str, patch: list[dict], manager: str = "intruder") -> dict:
        return self.ask("PATCH", f"{self.path(kind, name)}?fieldManager={manager}", patch)

    def of(self, store: str) -> list[tuple[str, dict]]:
        """All that the operator made for a Filestore."""
        selector = f"labelSelector=filestore.ryax.tech/name%3D{store}"
        return [(kind, found) for kind in KINDS for found in self.ask("GET", f"{self.path(kind)}?{selector}")["items"]]

    def drift(self, store: str) -> list[tuple[str, str, str]]:
        """(kind/name, field, note) of each event that tells of drift."""
        items = self.ask("GET", f"apis/events.k8s.io/v1/namespaces/{self.namespace}/events?limit=5000")["items"]
        return [(f"{event['related']['kind']}/{event['related']['name']}", event["related"]["fieldPath"], event["note"])
                for event in items if event["reason"] == "DriftCorrected" and event["regarding"]["name"] == store]


@contextmanager
def objects_of(namespace):
    proxy = subprocess.Popen(["kubectl", "proxy", "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"127\.0\.0\.1:\d+", proxy.stdout.readline())[0]
        yield Objects(f"http://{address}", namespace.name)
    finally:
        proxy.kill()
        proxy.wait()


# What the API server itself keeps as it is.
FIXED = {
    "Deployment": {"spec.selector", "spec.template.metadata.labels[filestore.ryax.tech/component]", "spec.template.metadata.labels[filestore.ryax.tech/name]",
                   "spec.template.spec.containers[gateway]", "spec.template.spec.volumes[access]", "spec.template.spec.volumes[data]", "spec.template.spec.volumes[tls]"},
    # The size, because no volume is there yet.
    "PersistentVolumeClaim": {"spec.accessModes", "spec.resources.requests.storage", "spec.volumeMode"},
}
# A change of this one says that the operator itself wants something else.
UNTOLD = "metadata.annotations[filestore.ryax.tech/applied]"
# When the Secret of the gateway changed last: a time in it is a record that nobody else keeps, and what is none goes.
CHANGED = "metadata.annotations[filestore.ryax.tech/access-changed]"


def changed(objects: Objects, kind: str, found: dict, path: tuple) -> bool:
    """Gives a field another value; false when the API server takes none."""
    for patch in fields.changes(found, path):
        try:
            after = objects.patch(kind, found["metadata"]["name"], patch)
        except Refused as refused:
            assert refused.args[0] in (400, 403, 422), refused
            continue
        if fields.value_at(after, path) != fields.value_at(found, path):
            return True
    return False


def is_time(text: str | None) -> bool:
    try:
        return text is not None and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def sweep(objects: Objects, store: str, part: int, parts: int, kinds: tuple[str, ...]) -> dict[str, set[str]]:
    """Changes the fields of a store, one after the other; returns those that the API server does not let anybody change."""
    refused: dict[str, set[str]] = {}
    mine = [(kind, found, path) for kind, found in objects.of(store) if kind in kinds for path in fields.owned(found, MANAGER)]
    for kind, found, path in mine[part::parts]:
        name, field = found["metadata"]["name"], fields.named(path)
        before = objects.get(kind, name)
        wanted = fields.value_at(before, path)
        assert wanted is not None, (kind, field)
        if not changed(objects, kind, before, path):
            refused.setdefault(kind, set()).add(field)
            continue
        if field == CHANGED:
            until(f"{store}: {field} of {kind} {name} is a time", lambda: is_time(fields.value_at(objects.get(kind, name), path)))
            continue
        until(f"{store}: {field} of {kind} {name} is put back", lambda: fields.value_at(objects.get(kind, name), path) == wanted)
        if field == UNTOLD:
            continue

        def told() -> bool:
            return any(about == f"{kind}/{name}" and (at.startswith(field) or field.startswith(at)) for about, at, _ in objects.drift(store))

        until(f"{store}: {field} of {kind} {name} is told of", told)
    return refused


@pytest.fixture(scope="module")
def kept(definition, prometheus_kinds):
    made = Namespace()
    yield made
    made.delete()


@pytest.fixture(scope="module")
def keeper(kept, tmp_path_factory):
    """An operator that looks after the stores of this module."""
    made = Operator(kept, tmp_path_factory.mktemp("keeper")).start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def objects(kept, keeper):
    """Suspended stores with everything; the last three run the other engine."""
    made = [filestore(name, **EVERYTHING, **(VERSITYGW if name in OTHER_ENGINE else {}), service={"compatibility": [{"name": f"old-{name}"}]}) for name in STORES]
    made[0]["metadata"]["labels"] = TRACKED
    kept.apply(secret(), certificate(), *made)
    for name in STORES:
        kept.wait("Ready=False/Suspended", name)
    with objects_of(kept) as found:
        yield found


def test_no_kind_that_the_operator_makes_is_left_out():
    rules = yaml.safe_load((REPO / "manifests/operator/role.yaml").read_text())["rules"]
    made = {resource for rule in rules if {"create", "patch"} & set(rule["verbs"]) for resource in rule["resources"]}
    # These belong to others: it changes what a take-over or a rotation needs of them.
    made -= {"statefulsets", "pods", "filestores/status"}
    assert made - NOT_KEPT == {path.rpartition("/")[2] for path in KINDS.values()}


def test_each_field_that_the_operator_sets_is_put_back_and_told_of(kept, keeper, objects):
    """The list of fields is what the API server says that the operator owns: a new field is not forgotten."""
    # With the other engine the Deployment is another one, and the rest the same.
    shares = [(name, number, len(BUNDLED), tuple(KINDS)) for number, name in enumerate(BUNDLED)]
    shares += [(name, number, len(OTHER_ENGINE), ("Deployment",)) for number, name in enumerate(OTHER_ENGINE)]
    with ThreadPoolExecutor(len(shares)) as workers:
        found = list(workers.map(lambda share: sweep(objects, *share), shares))
    refused = {kind: {field for part in found for field in part.get(kind, ())} for kind in KINDS}
    assert {kind: those for kind, those in refused.items() if those} == FIXED
    # Where the API server knows who it was, people are told; of what was removed it keeps no trace.
    notes = [note for name in STORES for _, _, note in objects.drift(name)]
    assert all('changed by "intruder"' in note or "did not record" in note for note in notes), notes
    container = "spec.template.spec.containers[gateway]"
    for field in ("spec.replicas", "spec.strategy.type", f"{container}.args", f"{container}.env[VGW_KEEP_ALIVE].value", f"{container}.image",
                  f"{container}.securityContext.readOnlyRootFilesystem", "metadata.annotations[helm.sh/resource-policy]", "data.endpoint"):
        assert any(f': {field}, changed by "intruder", is put back' in note for note in notes), field
    assert not [note for reason, note in kept.events() if reason == "DriftStays"]


def test_what_others_add_stays_unless_it_changes_what_ours_says(kept, keeper, objects):
    store = STORES[0]
    template = "/spec/template"
    sidecar = {"name": "sidecar", "image": "registry.example/sidecar:1"}
    for kind, found in objects.of(store):
        objects.patch(kind, found["metadata"]["name"], [{"op": "add", "path": "/metadata/labels/team", "value": "storage"}, {"op": "add", "path": "/metadata/annotations/note", "value": "ours"}])
    variables = objects.get("Deployment", store)["spec"]["template"]["spec"]["containers"][0].get("env", [])
    objects.patch("Deployment", store, [
        {"op": "add", "path": f"{template}/metadata/annotations/restarted", "value": "now"},
        {"op": "add", "path": f"{template}/spec/containers/0/env", "value": [*variables, {"name": "EXTRA", "value": "1"}]},
        {"op": "add", "path": f"{template}/spec/containers/-", "value": sidecar}])
    # These say of our pod what we do not mean: another user, a selector that selects nothing.
    context = f"{template}/spec/containers/0/securityContext"
    container = "spec.template.spec.containers[gateway].securityContext"
    for kind, path, value, field in (
            ("Service", "/spec/selector/track", "canary", "spec.selector.track"),
            ("NetworkPolicy", "/spec/podSelector/matchLabels/track", "canary", "spec.podSelector.matchLabels.track"),
            ("Deployment", f"{context}/runAsUser", 0, f"{container}.runAsUser"),
            ("Deployment", f"{context}/capabilities/add", ["SYS_ADMIN"], f"{container}.capabilities.add"),
            ("Deployment", f"{template}/spec/securityContext/supplementalGroups", [0], "spec.template.spec.securityContext.supplementalGroups"),
            ("Deployment", f"{template}/spec/nodeSelector/pool", "none", "spec.template.spec.nodeSelector.pool")):
        objects.patch(kind, store, [{"op": "add", "path": path, "value": value}])
        note = f'{kind} {store}: {field}, changed by "intruder", is put back'
        until(note, lambda note=note: note in [told for _, _, told in objects.drift(store)])

        def gone(kind=kind, path=path) -> bool:
            found = objects.get(kind, store)
            for step in path.strip("/").split("/"):
                found = found[int(step)] if isinstance(found, list) else found.get(step, {})
            return not found

        until(f"{path} of {kind} is gone", gone)
    for kind, found in objects.of(store):
        metadata = found["metadata"]
        assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("storage", "ours"), kind
    pod = objects.get("Deployment", store)["spec"]["template"]
    assert pod["metadata"]["annotations"]["restarted"] == "now"
    assert {"name": "EXTRA", "value": "1"} in pod["spec"]["containers"][0]["env"]
    assert [one["name"] for one in pod["spec"]["containers"]] == ["gateway", "sidecar"]


def test_labels_of_the_tools_that_made_the_filestore_are_not_passed_on(kept, keeper, objects):
    made = objects.of(STORES[0])
    assert {kind for kind, _ in made} == KINDS.keys()
    assert not [kind for kind, found in made if TRACKED.keys() & found["metadata"]["labels"].keys()]
    template = objects.get("Deployment", STORES[0])["spec"]["template"]["metadata"]
    assert not TRACKED.keys() & template["labels"].keys()


def test_what_others_delete_comes_back_as_it_was(kept, keeper, objects):
    store = STORES[1]

    def meant(found: dict) -> dict:
        return {fields.named(path): fields.value_at(found, path) for path in fields.owned(found, MANAGER) if fields.named(path) != CHANGED}

    made = [(kind, found) for kind, found in objects.of(store) if kind != "PersistentVolumeClaim"]
    assert sorted(kind for kind, _ in made) == ["ConfigMap", "ConfigMap", "Deployment", "NetworkPolicy", "PrometheusRule", "Secret", "Service", "Service", "ServiceAccount", "ServiceMonitor"]
    for kind, found in made:
        objects.ask("DELETE", objects.path(kind, found["metadata"]["name"]))
    for kind, found in made:
        name = found["metadata"]["name"]

        def again(kind=kind, name=name, found=found) -> dict | None:
            try:
                live = objects.get(kind, name)
            except Refused:
                return None
            return live if live["metadata"]["uid"] != found["metadata"]["uid"] else None

        assert meant(until(f"{kind} {name} is back", again)) == meant(found)


def test_a_round_with_nothing_to_do_writes_nothing(namespace, operator):
    operator.kill()
    server = ApiServer(operator)
    operator.start()
    namespace.apply(secret(), certificate(), filestore(**{**EVERYTHING, "suspend": False, "placement": {}}, service={"compatibility": [{"name": "old"}]}))
    namespace.wait("Ready=True/Serving")
    namespace.until("used space is told", lambda: namespace.get("filestore", "files")["status"]["storage"].get("usedPercent") is not None)
    namespace.until("nothing is written for a while", operator.quiet)

    def used() -> int:
        return namespace.get("filestore", "files")["status"]["storage"]["usedPercent"]

    before, full, rounds = list(server.changes()), used(), operator.metric("filestore_operator_rounds_total")
    # Each of these is a round; none changes anything that the operator means.
    for number in range(3):
        for kind in ("deployment", "service", "configmap"):
            name = "files-site" if kind == "configmap" else "files"
            namespace("annotate", kind, name, "--overwrite", f"seen={number}")
        namespace.until("a round was made", lambda seen=rounds + number: operator.metric("filestore_operator_rounds_total") > seen)
    namespace.until("nothing is written for a while", operator.quiet)
    after = server.changes()[len(before):]
    if used() != full:
        # The disk of the node is others', too: to say so is right.
        after = [(method, path) for method, path in after if not path.endswith("/filestores/files/status")]
    assert after == []
    assert [path for method, path in server.writes if "/leases" in path], "the lease is renewed: the proxy sees what is written"

    # One field is put back by one write, with one event.
    namespace("scale", "deployment", "files", "--replicas=3")
    namespace.until("it is put back", lambda: namespace.get("deployment", "files")["spec"]["replicas"] == 1)
    namespace.until("it is told", lambda: "DriftCorrected" in [reason for reason, _ in namespace.events()])
    namespace.until("nothing is written for a while", operator.quiet)
    after = server.changes()[len(before):]
    assert [path.rpartition("/")[0] for _, path in after if path.endswith("/deployments/files")] == [f"/apis/apps/v1/namespaces/{namespace.name}/deployments"]
    assert len([path for _, path in after if path.endswith("/events")]) >= 1

    # Nothing keeps a node from being drained: there is no disruption budget, and an eviction is let through.
    assert namespace.items("poddisruptionbudgets") == []
    pod = namespace.pods("filestore.ryax.tech/name=files")[0]["metadata"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["name"], "namespace": namespace.name}}
    namespace("create", "--raw", f"/api/v1/namespaces/{namespace.name}/pods/{pod['name']}/eviction", "-f", "-", stdin=json.dumps(eviction))
    namespace.until("another pod is there", lambda: [one for one in namespace.pods("filestore.ryax.tech/name=files") if one["metadata"]["uid"] != pod["uid"]], 60)
    namespace.wait("Ready=True/Serving")
    server.stop()


def test_a_namespace_goes_without_an_operator(definition, tmp_path):
    """No finalizer waits for anybody."""
    namespace = Namespace()
    operator = Operator(namespace, tmp_path).start()
    try:
        namespace.apply(secret(), filestore(suspend=True))
        namespace.wait("Ready=False/Suspended")
    finally:
        operator.kill()
        namespace.delete()
    until("the namespace is gone", lambda: not kubectl("get", "namespace", namespace.name, "--ignore-not-found"), 60)


@pytest.mark.skipif(not VERSITYGW_IMAGE, reason="needs FILESTORE_E2E_VERSITYGW_IMAGE: make e2e-operator")
def test_engines_take_turns_over_the_same_objects(namespace, operator):
    namespace.apply(secret(), filestore(buckets=[{"name": "uploads"}]))
    namespace.wait("Ready=True/Serving")
    claim = namespace.get("pvc", "files")["metadata"]["uid"]

    def fill(by: str):
        s3 = client(namespace)
        s3.put_object(Bucket="uploads", Key=f"{by}/small", Body=by.encode(), ContentType="text/x-test", CacheControl="no-cache", Metadata={"origin": by}, Tagging=f"by={by}&stage=prod")
        put_multipart(s3, "uploads", f"{by}/parts", pattern(11 << 20, by), 5 << 20, Metadata={"parts": "3"})
        s3.put_object(Bucket="uploads", Key="shared", Body=f"last written by {by}".encode(), Metadata={"last": by})

    def use(spec: dict, image: str):
        namespace("patch", "filestore", "files", "--type=merge", "-p", json.dumps({"spec": spec}))
        namespace.until(f"a pod of {image} is ready", lambda: [
            True for pod in namespace.pods("filestore.ryax.tech/name=files") if pod["spec"]["containers"][0]["image"] == image
            and any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))], 90)
        namespace.wait("Ready=True/Serving")

    fill("bundled")
    objects = snapshot(client(namespace))
    assert len(objects["uploads"]) == 3 and objects["uploads"]["bundled/parts"]["etag"].endswith("-3")
    use({"engine": "versitygw", "versitygw": {"image": VERSITYGW_IMAGE}}, VERSITYGW_IMAGE)
    assert snapshot(client(namespace)) == objects
    fill("versitygw")
    client(namespace).delete_object(Bucket="uploads", Key="bundled/small")
    objects = snapshot(client(namespace))
    assert sorted(objects["uploads"]) == ["bundled/parts", "shared", "versitygw/parts", "versitygw/small"]
    use({"engine": "bundled", "versitygw": None}, IMAGE)
    assert snapshot(client(namespace)) == objects
    assert namespace.get("pvc", "files")["metadata"]["uid"] == claim

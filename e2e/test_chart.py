"""charts/filestore: renders what the operator makes, refuses what it does not understand, and is a good subchart.

What it does in a cluster is in test_cluster_chart.py.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import requests
import yaml

from harness.helm import CHART, CHARTS, by_kind, helm, needs_helm, refusal, render
from harness.servers import binary

GOLDEN = CHARTS.parent / "operator/tests/golden"
KEYS = {"credentials": {"secretRef": {"name": "root-keys"}}}
# The operator's pods are let in by the policy that the operator makes.
OPERATOR = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "filestore-operator"}}}


def values_of(name: str) -> dict:
    """The spec of a golden Filestore, as values of the chart."""
    documents = yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text())
    found = next(document for document in documents if document["kind"] == "Filestore")
    values = found["spec"] | {"fullnameOverride": found["metadata"]["name"]}
    values.get("migration", {}).pop("mode", None)
    # At the top, as in other charts.
    values["imagePullSecrets"] = values.get("pod", {}).pop("imagePullSecrets", [])
    if policy := values.get("networkPolicy"):
        policy["allowMetricsFrom"] = [OPERATOR, *policy.get("allowMetricsFrom", [])]
        if "allowFrom" in policy:
            policy["allowFrom"] = [OPERATOR, *policy["allowFrom"]]
    return values


def content(found: dict) -> dict:
    """All but metadata, and what the two makers label differently for good reason."""
    told = {field: value for field, value in found.items() if field != "metadata"}
    if found["kind"] == "ServiceMonitor":
        labels = told["spec"]["selector"]["matchLabels"]
        assert list(labels) in (["filestore.ryax.tech/name"], ["filestore.ryax.tech/store"])
        told["spec"]["selector"]["matchLabels"] = list(labels.values())
    return told


@needs_helm
@pytest.mark.parametrize("name", ["fresh", "offline", "online", "tls", "tls-versitygw", "versitygw"])
def test_the_chart_renders_what_the_operator_makes(name):
    made = json.loads((GOLDEN / f"{name}.json").read_text())
    namespace = made["deployment"]["metadata"].get("namespace", "default")
    rendered = render(namespace=namespace, **values_of(name))

    for kind, found in [("Deployment", made["deployment"]), ("ServiceAccount", made["serviceAccount"]), ("PersistentVolumeClaim", made["claim"])]:
        if found:
            assert content(by_kind(rendered, kind)) == content(found), kind
    if made["claim"]:
        assert by_kind(rendered, "PersistentVolumeClaim")["metadata"]["annotations"] == made["claim"]["metadata"]["annotations"]
    else:
        assert not [one for one in rendered if one["kind"] == "PersistentVolumeClaim"]
    others = [made["service"], *made.get("extras", [])]
    for found in others:
        mine = by_kind(rendered, found["kind"], found["metadata"]["name"])
        assert content(mine) == content(found), found["kind"]
        ours = {key: value for key, value in found["metadata"]["labels"].items() if not key.startswith("app.kubernetes.io/") and key not in ("filestore.ryax.tech/name", "filestore.ryax.tech/component")}
        assert ours.items() <= mine["metadata"]["labels"].items()
    assert len(rendered) == 2 + len(others) + bool(made["claim"]), "and nothing else"
    for one in rendered:
        assert one["metadata"]["namespace"] == namespace
        # What the operator made it knows by this label; what a chart made is not to be taken for that.
        assert "filestore.ryax.tech/name" not in one["metadata"]["labels"], one["kind"]


# Values beside those that are needed, and what is said against them.
REFUSED = {
    "a typo": ({"enigne": "bundled"}, "additional properties 'enigne' not allowed"),
    "a typo further down": ({"storage": {"siez": "1Gi"}}, "at '/storage': additional properties 'siez' not allowed"),
    "a typo in a list": ({"buckets": [{"nmae": "x"}]}, "at '/buckets/0': additional properties 'nmae' not allowed"),
    "an engine that does not exist": ({"engine": "seaweedfs"}, "at '/engine': value must be one of"),
    "tag latest": ({"image": "reg.example/filestore:latest"}, "at '/image'"),
    "versitygw without its image": ({"engine": "versitygw"}, "versitygw.image: \"\" does not say which version"),
    "metrics of versitygw": ({"engine": "versitygw", "versitygw": {"image": "v:1"}, "monitoring": {"dashboard": {"enabled": True}}}, "versitygw serves no metrics"),
    "two sources": ({"migration": {"source": {"endpoint": "http://m:9000", "existingClaim": "m"}}}, "set endpoint (a running store) or existingClaim"),
    "the source as target": ({"storage": {"existingClaim": "m"}, "migration": {"source": {"existingClaim": "m"}}}, "\"m\" is also the target"),
    "keys in the URL": ({"migration": {"source": {"endpoint": "http://u:p@m:9000"}}}, "at '/migration/source/endpoint'"),
    "a way out of the claim": ({"migration": {"source": {"existingClaim": "m", "path": "a/../b"}}}, "at '/migration/source/path'"),
    "a bandwidth in words": ({"migration": {"bandwidth": "fast"}}, "at '/migration/bandwidth'"),
    "a deadline without unit": ({"migration": {"deadline": "90"}}, "at '/migration/deadline'"),
    "fewer than no deletions": ({"migration": {"maxDelete": -1}}, "at '/migration/maxDelete'"),
    "workers for one pod": ({"migration": {"shards": 3}}, "at '/migration': additional properties 'shards' not allowed"),
    "root": ({"security": {"runAsUser": 0}}, "at '/security/runAsUser'"),
    "our own labels": ({"pod": {"labels": {"filestore.ryax.tech/name": "x"}}}, "is set by the chart itself"),
    "the own name again": ({"fullnameOverride": "files", "service": {"compatibility": [{"name": "files"}]}}, "\"files\" is the store's own name"),
    "a certificate by a name of its own": ({"tls": {"secretName": "files-tls"}}, "at '/tls': additional properties 'secretName' not allowed"),
    "a bucket with capitals": ({"buckets": [{"name": "Uploads"}]}, "at '/buckets/0/name'"),
}


@needs_helm
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what):
    values, message = REFUSED[what]
    assert message in refusal(**KEYS, **values)


@needs_helm
def test_keys_must_be_named():
    assert "credentials.secretRef.name: name the Secret" in refusal()


@needs_helm
def test_labels_that_the_pod_wears_do_not_get_into_selectors():
    worn = {"app.kubernetes.io/name": "minio", "app.kubernetes.io/instance": "ryax", "app.kubernetes.io/component": "minio", "app.kubernetes.io/part-of": "minio"}
    before, after = render(**KEYS), render(**KEYS, pod={"labels": worn})
    deployment = by_kind(after, "Deployment")["spec"]
    assert worn.items() <= deployment["template"]["metadata"]["labels"].items()
    assert deployment["selector"] == by_kind(before, "Deployment")["spec"]["selector"]
    assert by_kind(after, "Service")["spec"] == by_kind(before, "Service")["spec"]


def images(objects: list[dict]) -> set[str]:
    return set(re.findall(r'"image": "([^"]+)"', json.dumps(objects)))


@pytest.fixture
def parent(tmp_path) -> Path:
    """A chart with two stores in it."""
    chart = tmp_path / "ryax"
    shutil.copytree(CHART, chart / "charts/filestore")
    dependencies = [{"name": "filestore", "version": "0.1.0", "condition": "filestore.enabled"}, {"name": "filestore", "version": "0.1.0", "alias": "archive", "condition": "archive.enabled"}]
    (chart / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": "ryax", "version": "1.0.0", "dependencies": dependencies}))
    return chart


@needs_helm
def test_as_a_subchart(parent):
    shared = {"global": {"imageRegistry": "registry.example:5000/mirror", "imagePullSecrets": ["one", {"name": "two"}], "storageClass": "of other charts"}}
    values = shared | {"filestore": {"enabled": True, **KEYS, "monitoring": {"serviceMonitor": {"enabled": True}}},
                       "archive": {"enabled": True, "credentials": {"secretRef": {"name": "archive-keys"}}, "engine": "versitygw", "versitygw": {"image": "docker.io/versity/versitygw:v1.8.0"}, "imagePullSecrets": [{"name": "two"}, {"name": "three"}]}}
    rendered = render(parent, "ryax", **values)
    assert images(rendered) == {"registry.example:5000/mirror/ryaxtech/filestore:0.1.0", "registry.example:5000/mirror/versity/versitygw:v1.8.0"}
    pod = by_kind(rendered, "Deployment", "ryax-archive")["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}, {"name": "three"}]
    # Two stores of one release are kept apart.
    monitor = by_kind(rendered, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    behind = [one["metadata"]["name"] for one in rendered if one["kind"] == "Service" and monitor.items() <= one["metadata"]["labels"].items()]
    assert behind == ["ryax-filestore"]
    names = [(one["kind"], one["metadata"]["name"]) for one in rendered]
    assert len(names) == len(set(names))

    only = render(parent, "ryax", **values | {"archive": {"enabled": False}})
    assert {one["metadata"]["name"] for one in only} == {"ryax-filestore"}
    assert "additional properties 'enigne' not allowed" in refusal(parent, filestore={**KEYS, "enigne": "x"}, archive={"enabled": False})


def pulled(*arguments: str, stdin: str = "") -> list[str]:
    done = subprocess.run([binary(), "images", *arguments], input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_helm
def test_filestore_images_lists_what_is_rendered(tmp_path, parent):
    """Of values, of the chart rendered with them, of a chart around it, of the operator's chart."""
    values = KEYS | {"image": "reg.example/f:1", "engine": "versitygw", "versitygw": {"image": "docker.io/versity/versitygw:v1.8.0"}, "global": {"imageRegistry": "mirror.example:5000/x"}}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    rendered = render(**values)
    assert pulled(str(file)) == sorted(images(rendered)) == ["mirror.example:5000/x/f:1", "mirror.example:5000/x/versity/versitygw:v1.8.0"]
    assert pulled("-", stdin=yaml.safe_dump_all(rendered)) == sorted(images(rendered))
    around = helm("template", "ryax", str(parent), "--values", "-", stdin=json.dumps({"filestore": KEYS | {"image": "a/b:2"}, "archive": {"enabled": False}})).stdout
    assert pulled("-", stdin=around) == ["a/b:2"]
    operator = helm("template", "op", str(CHARTS / "filestore-operator"), "--set", "image=a/op:3,defaultImage=a/f:4").stdout
    assert pulled("-", stdin=operator) == ["a/f:4", "a/op:3"]
    # Of nothing: what the chart pulls by itself.
    assert pulled() == sorted(images(render(**KEYS)))
    (tmp_path / "other.yaml").write_text("filestore: {image: a/b:2}")
    done = subprocess.run([binary(), "images", str(tmp_path / "other.yaml")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "render it: helm template" in done.stderr


@needs_helm
@pytest.mark.parametrize("image, registry, result", [
    ("docker.io/a/b:1", "reg.example", "reg.example/a/b:1"),
    ("a/b:1", "reg.example/", "reg.example/a/b:1"),
    ("b:1", "reg.example", "reg.example/b:1"),
    ("localhost/b:1", "reg.example", "reg.example/b:1"),
    ("old.example:5000/b@sha256:0123", "reg.example/x", "reg.example/x/b@sha256:0123"),
    ("old.example:5000/b:1", "", "old.example:5000/b:1"),
])
def test_the_registry_of_all_charts(image, registry, result):
    assert images(render(**KEYS, image=image, **{"global": {"imageRegistry": registry}})) == {result}


@needs_helm
@pytest.mark.parametrize("chart", ["filestore", "filestore-operator"])
def test_renders_the_same_each_time_and_asks_no_cluster(chart):
    values = KEYS if chart == "filestore" else {}
    first, second = render(CHARTS / chart, **values), render(CHARTS / chart, **values)
    assert first == second
    for one in first:
        hooks = [key for key in one["metadata"].get("annotations", {}) if "hook" in key]
        assert not hooks, f"{one['kind']}: {hooks}"
    for template in (CHARTS / chart / "templates").iterdir():
        words = set(re.findall(r"[A-Za-z]+", "".join(re.findall(r"\{\{.*?\}\}", template.read_text(), re.S))))
        assert not words & {"lookup", "randAlphaNum", "randAlpha", "uuidv", "now", "genCA", "genSelfSignedCert", "getHostByName"}, template


@needs_helm
def test_the_operators_chart_has_the_rights_of_the_manifests():
    """Each of them kept by hand; the Role for the lease apart."""
    role = yaml.safe_load((CHARTS.parent / "manifests/operator/role.yaml").read_text())["rules"]
    lease = [rule for rule in role if rule["apiGroups"] == ["coordination.k8s.io"]]
    rest = [rule for rule in role if rule not in lease]
    rendered = render(CHARTS / "filestore-operator", "op", "ns")
    assert by_kind(rendered, "Role", "filestore-operator")["rules"] == rest
    assert by_kind(rendered, "Role", "filestore-operator-lease")["rules"] == lease
    everywhere = render(CHARTS / "filestore-operator", "op", "ns", watch={"allNamespaces": True})
    assert by_kind(everywhere, "ClusterRole")["rules"] == rest
    assert "additional properties 'wacth' not allowed" in refusal(CHARTS / "filestore-operator", wacth={})


def alerts(**replaced: str) -> dict:
    text = (CHARTS.parent / "operator/monitoring/alerts.yaml").read_text()
    for name, value in {"namespace": "ns", "service": "files", "warnPercent": "80", **replaced}.items():
        text = text.replace(f"$({name})", value)
    return yaml.safe_load(text)


def test_alerts_and_dashboard_ask_only_for_what_is_exported(fleet):
    """Names and labels, compared with those of a gateway that has served and refused something."""
    gateway = fleet.gateway()
    admin = f"http://127.0.0.1:{gateway.admin_port}/metrics"
    requests.get(gateway.endpoint, timeout=10)
    text = requests.get(admin, timeout=10).text
    exported = {name for name in re.findall(r"^(filestore_\w+)", text, re.M)}
    declared = dict(re.findall(r"^# TYPE (filestore_\w+) (\w+)", text, re.M))
    exported |= {f"{name}_total" for name, kind in declared.items() if kind == "counter"}
    exported |= {f"{name}_{part}" for name, kind in declared.items() if kind == "histogram" for part in ("bucket", "sum", "count")}

    dashboard = json.loads((CHARTS.parent / "operator/monitoring/dashboard.json").read_text())
    asked = [rule["expr"] for group in alerts()["groups"] for rule in group["rules"]]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [variable["definition"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    names = {name for expression in asked for name in re.findall(r"\bfilestore_\w+", expression)}
    assert len(names) > 8
    assert names <= exported, names - exported
    # Labels of ours; the others are given by the scrape.
    labels = {label for expression in asked for label in re.findall(r"[{,]\s*(\w+)(?:=|!=|=~|!~)\"", expression)} | {label for expression in asked for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")}
    assert labels <= {"namespace", "service", "operation", "code", "kind", "le"}, labels


def test_the_dashboard_fits_any_grafana():
    """Everything through the variable for the data source, nothing that another Grafana numbered, no panel over another."""
    dashboard = json.loads((CHARTS.parent / "operator/monitoring/dashboard.json").read_text())
    assert not {"id", "uid", "version"} & set(dashboard)
    taken = set()
    for panel in dashboard["panels"]:
        assert "id" not in panel
        assert {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])} == {"$datasource"}
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool on PATH")

SERIES = '{namespace="ns",service="files"}'
# Series, the alert that they must raise, when. Values as promtool writes them: start+step x times.
RAISED = {
    "FilestoreDown": ({}, "6m"),
    "FilestoreCapacityHigh": ({"filestore_store_available_bytes": "15x30", "filestore_store_size_bytes": "100x30"}, "20m"),
    "FilestoreCapacityCritical": ({"filestore_store_available_bytes": "4x30", "filestore_store_size_bytes": "100x30"}, "10m"),
    "FilestoreFillsUp": ({"filestore_store_available_bytes": "10000-10x500", "filestore_store_size_bytes": "20000x500"}, "8h"),
    "FilestoreInodesLow": ({"filestore_store_available_inodes": "5x30", "filestore_store_inodes": "100x30"}, "20m"),
    "FilestoreNoSpace": ({'filestore_store_errors_total{kind="no_space"}': "0 0 0 0 3 3 3 3 3"}, "6m"),
    "FilestoreErrors": ({'filestore_store_errors_total{kind="io"}': "0 0 0 0 1 1 1 1 1"}, "6m"),
}
# All is well: room, no errors, a file system that counts no inodes.
HEALTHY = {"filestore_build_info": "1x600", "filestore_store_available_bytes": "60x600", "filestore_store_size_bytes": "100x600", "filestore_store_inodes": "0x600", "filestore_store_available_inodes": "0x600",
           'filestore_store_errors_total{kind="io"}': "7x600", 'filestore_store_errors_total{kind="no_space"}': "7x600"}


def series(name: str, values: str) -> dict:
    name, _, more = name.partition("{")
    labels = SERIES[:-1] + ("," + more if more else "}")
    return {"series": name + labels, "values": re.sub(r"^(\d+)x", r"\1+0x", values)}


def evaluate(tmp_path: Path, tests: list[dict]) -> subprocess.CompletedProcess:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(alerts()))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    return subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=120)


@needs_promtool
def test_promtool_takes_the_rules(tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(alerts()))
    done = subprocess.run(["promtool", "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RAISED)} rules found" in done.stdout


@needs_promtool
@pytest.mark.parametrize("alert", RAISED)
def test_each_alert_is_raised_by_what_it_is_about(tmp_path, alert):
    rule = next(rule for rule in alerts()["groups"][0]["rules"] if rule["alert"] == alert)
    shown, when = RAISED[alert]
    expected = dict(rule["labels"]) | {"namespace": "ns", "service": "files"}
    for name in shown:
        expected |= dict(re.findall(r'(kind)="(\w+)"', name))
    percent = {"FilestoreCapacityHigh": "85", "FilestoreCapacityCritical": "96"}.get(alert, "")
    annotations = {key: text.replace("{{ $value | humanize }}", percent).replace("{{ $labels.kind }}", expected.get("kind", "")) for key, text in rule["annotations"].items()}
    test = {"interval": "1m", "input_series": [series(*one) for one in shown.items()],
            "alert_rule_test": [{"eval_time": when, "alertname": alert, "exp_alerts": [{"exp_labels": expected, "exp_annotations": annotations}]}]}
    done = evaluate(tmp_path, [test])
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_no_alert_while_all_is_well(tmp_path):
    tests = [{"interval": "1m", "input_series": [series(*one) for one in HEALTHY.items()], "alert_rule_test": [{"eval_time": when, "alertname": alert, "exp_alerts": []} for alert in RAISED for when in ("10m", "9h")]}]
    done = evaluate(tmp_path, tests)
    assert done.returncode == 0, done.stdout + done.stderr

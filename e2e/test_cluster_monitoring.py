"""What the Prometheus operator reads, on a cluster that knows its kinds: no field that it does not know, made by the operator and by the chart."""

import json

import pytest
import yaml

from harness.apiserver import ApiServer
from harness.cluster import filestore, needs_cluster, secret
from harness.helm import needs_helm, render

pytestmark = [needs_cluster, pytest.mark.usefixtures("prometheus_kinds"), pytest.mark.xdist_group("prometheus_kinds")]
MONITORING = {"serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}},
              "prometheusRule": {"enabled": True, "capacityWarnPercent": 70, "labels": {"release": "prometheus"}}}
KINDS = ("servicemonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com")


def test_what_the_operator_makes(namespace, operator):
    """The API server refuses unknown fields of all that passes through the proxy, and what does not match the schema anyway."""
    operator.kill()
    server = ApiServer(operator)
    operator.start()
    namespace.apply(secret(), filestore(buckets=[{"name": "uploads"}], monitoring=MONITORING))
    namespace.wait("Ready=True/Serving")
    namespace.wait("MonitoringReady=True/Applied")
    written = [path.rpartition("/")[0].rpartition("/")[2] for _, path in server.changes() if "monitoring.coreos.com" in path]
    assert sorted(written) == ["prometheusrules", "servicemonitors"], "once each: nothing of them was dropped or defaulted otherwise"
    monitor, rule = (namespace.get(kind, "files") for kind in KINDS)
    assert monitor["metadata"]["labels"]["release"] == rule["metadata"]["labels"]["release"] == "prometheus"
    endpoint, = monitor["spec"]["endpoints"]
    assert (endpoint["interval"], endpoint["path"]) == ("15s", "/metrics")
    # What it selects is the store's Service, and the port that it names is one of the pod's.
    selected = ",".join(f"{key}={value}" for key, value in monitor["spec"]["selector"]["matchLabels"].items())
    assert "service/files" in namespace("get", "services", "-l", selected, "-o", "name").split()
    pod, = namespace.pods("filestore.ryax.tech/name=files")
    assert endpoint["targetPort"] in [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
    assert [one for group in rule["spec"]["groups"] for one in group["rules"] if "70" in str(one["expr"]) or "0.7" in str(one["expr"])]

    # They are looked after and go as other objects do.
    namespace("patch", KINDS[0], "files", "--type=json", "-p", '[{"op":"replace","path":"/spec/endpoints/0/path","value":"/other"}]')
    namespace.until("it is put back", lambda: namespace.get(KINDS[0], "files")["spec"]["endpoints"][0]["path"] == "/metrics")
    namespace.apply(filestore(buckets=[{"name": "uploads"}]))
    namespace.until("they go", lambda: namespace("get", ",".join(KINDS), "-o", "name").split() == [])
    namespace.until("nothing is written any more", operator.quiet)
    server.stop()


def test_with_versitygw_there_are_none_and_it_is_said(namespace, operator):
    namespace.apply(secret(), filestore(engine="versitygw", versitygw={"image": "localhost/versitygw:none"}, monitoring=MONITORING))
    found = namespace.wait("MonitoringReady=False/EngineLacks", seconds=30)
    told = next(one["message"] for one in found["status"]["conditions"] if one["type"] == "MonitoringReady")
    assert "StatsD" in told and "use engine bundled" in told
    assert namespace("get", ",".join(KINDS), "-o", "name").split() == []


@needs_helm
def test_what_the_chart_makes(shared):
    made = [one for one in render(credentials={"secretRef": {"name": "keys"}}, monitoring=MONITORING) if one["apiVersion"].startswith("monitoring.coreos.com/")]
    assert sorted(one["kind"] for one in made) == ["PrometheusRule", "ServiceMonitor"]
    for found in made:
        found["metadata"].pop("namespace", None)
        told = json.loads(shared("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", stdin=yaml.safe_dump(found)))
        assert told["spec"] == found["spec"], "nothing is added either, which GitOps tools would show as a difference"

"""`filestore preflight` against a real cluster, with rights to look and none to change; optional objects of a Filestore."""

import json
import subprocess

import pytest
import yaml

from harness.cluster import REPO, filestore, kubectl, needs_cluster, needs_minio, secret
from harness.legacy import NAME, SELECTOR, Legacy
from harness.servers import binary

pytestmark = needs_cluster

KEEP = ("helm.sh/resource-policy=keep", "argocd.argoproj.io/sync-options=Prune=false,Delete=false")


@pytest.fixture
def look(namespace, tmp_path):
    """Runs preflight with the rights of manifests/preflight: exit code and report."""
    for document in yaml.safe_load_all((REPO / "manifests/preflight/role.yaml").read_text()):
        for subject in document.get("subjects", []):
            subject["namespace"] = namespace.name
        namespace.apply(document)
    for document in yaml.safe_load_all((REPO / "manifests/preflight/cluster-role.yaml").read_text()):
        document["metadata"]["name"] = namespace.name
        for subject in document.get("subjects", []):
            subject["namespace"] = namespace.name
            document["roleRef"]["name"] = namespace.name
        kubectl("apply", "-f", "-", stdin=json.dumps(document))
    cluster = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))["clusters"][0]["cluster"]
    config = tmp_path / "preflight.kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": namespace("create", "token", "filestore-preflight").strip()}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": namespace.name}}]}))

    def look(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([binary(), "preflight", *arguments], env={"KUBECONFIG": str(config)}, capture_output=True, text=True, timeout=60)
        assert done.returncode in (0, 5), done.stderr
        return done.returncode, done.stdout

    yield look
    kubectl("delete", "clusterrole,clusterrolebinding", namespace.name)


def found(report: dict, *weights: str) -> list[tuple[str, str]]:
    return [(one["check"], one["found"]) for one in report["findings"] if one["weight"] in weights]


@needs_minio
def test_what_a_take_over_needs(namespace, look):
    Legacy(namespace)
    code, text = look("--json")
    report = json.loads(text)
    # Helm would delete the claim with the release; nothing else is in the way.
    assert code == 5 and not report["ready"]
    assert report["legacy"] == f"Deployment {NAME}"
    assert found(report, "must") == [("claim", "Helm release ryax deletes it when an upgrade leaves it out")]
    assert report["podLabels"] == SELECTOR
    assert {check for check, _ in found(report, "unknown")} == {"target"}, "extended attributes"
    namespace("annotate", "pvc", NAME, *KEEP)
    code, text = look()
    assert code == 0, text
    for told in (f"Deployment {NAME}", f"Service {NAME}:9000 (kept by Helm release ryax) leads to the new pod", "Secret ryax-minio-secret has root-user and root-password",
                 f"NetworkPolicy {NAME}", f"PodDisruptionBudget {NAME}", "default StorageClass local-path", "app.kubernetes.io/part-of: minio", "nothing has to be done first"):
        assert told in text, text


def test_an_empty_namespace_and_no_rights_at_all(namespace, look):
    code, text = look()
    assert code == 0 and "nothing in the namespace looks like a MinIO" in text
    namespace("delete", "rolebinding", "filestore-preflight")
    code, text = look("--json")
    report = json.loads(text)
    assert code == 0
    unknown = found(report, "unknown")
    assert {check for check, _ in unknown} == {"operator", "legacy", "target"} and all("forbidden" in told for check, told in unknown if check != "target")
    # What cannot be looked at is not taken for empty.
    assert "looks like a MinIO" not in text


@pytest.mark.xdist_group("prometheus_kinds")
def test_optional_objects_come_and_go(namespace, operator):
    """With the rights of manifests/operator; the cluster knows no ServiceMonitors."""
    namespace.apply(secret(), filestore(
        buckets=[{"name": "uploads"}], service={"compatibility": [{"name": "old-files", "port": 80}]}, networkPolicy={"enabled": True},
        monitoring={"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}, site={"name": "lyon"}))
    namespace.wait("Ready=True/Serving")
    told = namespace.wait("MonitoringReady=False/KindUnknown")
    namespace.wait("NamesReady=True/NamesLeadHere")
    assert told["status"]["phase"] == "Ready"
    assert "KindUnknown" in [reason for reason, _ in namespace.events()]
    names = {"networkpolicy/files", "configmap/files-site", "configmap/files-dashboard", "service/old-files"}

    def there() -> set[str]:
        listed = namespace("get", "networkpolicy,configmap,service", "-o", "name").split()
        return {name.replace(".networking.k8s.io", "") for name in listed} & names

    assert there() == names
    # Drift of a policy, and a deleted ConfigMap.
    namespace("patch", "networkpolicy", "files", "--type=merge", "-p", '{"spec":{"ingress":[{}]}}')
    namespace("delete", "configmap", "files-site")
    namespace.until("both are put back", lambda: there() == names and namespace.get("networkpolicy", "files")["spec"]["ingress"][0]["ports"][0]["port"] == "api")
    assert operator.quiet()
    namespace.apply(filestore(buckets=[{"name": "uploads"}]))
    namespace.until("all of them go", lambda: not there())
    namespace.wait("Ready=True/Serving")

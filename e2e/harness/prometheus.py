"""The kinds of the Prometheus operator in a cluster, from its Go module."""

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

import yaml

from harness.cluster import kubectl

MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
# As the checksum database has it (go.dev/ref/mod#go-sum-files).
SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
KINDS = ("servicemonitors", "prometheusrules")


def definitions() -> list[dict]:
    """CustomResourceDefinitions of ServiceMonitor and PrometheusRule."""
    done = subprocess.run(["go", "mod", "download", "-json", MODULE], cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"the definitions of the Prometheus operator cannot be fetched: {done.stdout}{done.stderr}"
    module = json.loads(done.stdout)
    assert module["Sum"] == SUM, module
    folder = Path(module["Dir"]) / "example/prometheus-operator-crd"
    return [yaml.safe_load((folder / f"monitoring.coreos.com_{kind}.yaml").read_text()) for kind in KINDS]


@contextmanager
def known_kinds():
    """The cluster knows ServiceMonitors and PrometheusRules meanwhile."""
    names = [f"crd/{kind}.monitoring.coreos.com" for kind in KINDS]
    there = kubectl("get", *names, "--ignore-not-found", "-o", "name").split()
    if not there:
        kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(definitions()))
        kubectl("wait", "--for=condition=Established", *names, "--timeout=30s")
    try:
        yield
    finally:
        if not there:
            kubectl("delete", *names, "--timeout=60s")

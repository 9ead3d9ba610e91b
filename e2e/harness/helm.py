"""Helm, and what its charts render."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

CHARTS = Path(__file__).parent.parent.parent / "charts"
CHART = CHARTS / "filestore"

needs_helm = pytest.mark.skipif(not shutil.which("helm"), reason="needs helm on PATH: make e2e-operator builds it")


def helm(*arguments: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess:
    """Without plugins, repositories and settings of the person at the keyboard."""
    with tempfile.TemporaryDirectory() as home:
        env = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")} | {f"HELM_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(["helm", *arguments], input=stdin, env=env, capture_output=True, text=True, timeout=600)
    assert not check or done.returncode == 0, f"helm {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done


def render(chart: Path = CHART, release: str = "files", namespace: str = "default", **values) -> list[dict]:
    """What `helm template` gives for these values."""
    done = helm("template", release, str(chart), "--namespace", namespace, "--values", "-", stdin=json.dumps(values))
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def refusal(chart: Path = CHART, **values) -> str:
    """What is said against these values."""
    done = helm("template", "files", str(chart), "--values", "-", stdin=json.dumps(values), check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


def by_kind(objects: list[dict], kind: str, name: str | None = None) -> dict:
    found = [one for one in objects if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    assert len(found) == 1, f"{kind} {name or ''}: {[one['metadata']['name'] for one in found]}"
    return found[0]

"""A legacy store that Helm owns: a release of an application whose chart brings Bitnami's MinIO along."""

import json
from pathlib import Path

from harness.helm import helm
from harness.legacy import NAME, Legacy, objects

RELEASE = "ryax"
# In labels of the objects and of the pods, as Bitnami's chart has it: each new version of the chart changes the pod template.
VERSION = "{{ .Values.minio.chartVersion }}"


def write_chart(folder: Path, namespace: str) -> Path:
    """The chart of the application; `minio.enabled: false` leaves the legacy store out, as a dropped dependency does."""
    chart = folder / "consumer"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: consumer\nversion: 1.0.0\n")
    (chart / "values.yaml").write_text(json.dumps({"minio": {"enabled": True, "chartVersion": "17.0.21"}}))
    made = objects(namespace)
    for one in made:
        # Helm writes its own.
        one["metadata"].pop("annotations")
    documents = "\n---\n".join(json.dumps(one, indent=1).replace("minio-17.0.21", f"minio-{VERSION}") for one in made)
    assert VERSION in documents
    (chart / "templates" / "minio.yaml").write_text("{{- if .Values.minio.enabled }}\n" + documents + "\n{{- end }}\n")
    (chart / "templates" / "application.yaml").write_text(json.dumps({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "application"}, "data": {"filestore": f"http://{NAME}:9000", "chart": VERSION}}))
    return chart


class Consumer(Legacy):
    """The release, which installs the legacy store."""

    def __init__(self, namespace, folder: Path):
        self.chart = write_chart(folder, namespace.name)
        super().__init__(namespace)

    def _helm(self, command: str, *arguments: str):
        helm(command, RELEASE, *arguments, "--namespace", self.namespace.name, "--wait", "--timeout", "90s")

    def _install(self):
        self._helm("install", str(self.chart))

    def upgrade(self, **minio):
        """To the same chart with other values of `minio`."""
        self._helm("upgrade", str(self.chart), "--reset-values", *(word for name, value in minio.items() for word in ("--set-json", f"minio.{name}={json.dumps(value)}")))

    def rollback(self, revision: int):
        self._helm("rollback", str(revision))

"""Fixtures: servers on free ports, volumes in temporary directories, everything killed at the end."""

import fcntl
import os
import subprocess
import tempfile
import uuid
import zlib
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from harness import s3
from harness.cluster import REPO, Namespace, Operator, kubectl
from harness.prometheus import known_kinds
from harness.servers import Gateway, Minio, Server, UnreadyGateway, Versitygw


def pytest_addoption(parser):
    parser.addoption("--target", choices=("filestore", "minio", "versitygw"), default="filestore",
                     help="server that the client tests talk to; the other two show that a test asks for what S3 does")
    parser.addoption("--soak", type=int, default=1, metavar="N",
                     help="N times as many rounds of the kill tests, and other random choices each time")


def pytest_collection_modifyitems(config, items):
    """With another target only the client tests make sense. The longest begin first, so that several processes end together; last what runs alone."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items.sort(key=lambda item: (item.get_closest_marker("alone") is not None, -max((mark.args[0] for mark in item.iter_markers("minutes")), default=0)))
    if config.getoption("--target") != "filestore":
        deselected = [item for item in items if "server" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]


def pytest_generate_tests(metafunc):
    """Client tests run on a volume of each metadata mode."""
    if "server" in metafunc.fixturenames:
        modes = ["xattr", "sidecar"] if metafunc.config.getoption("--target") == "filestore" else ["reference"]
        only = metafunc.definition.get_closest_marker("xattr_only")
        metafunc.parametrize("server", modes[:1] if only else modes, indirect=True, scope="session")


@pytest.fixture(scope="session")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("e2e")


@pytest.fixture(scope="session")
def server(request, tmp_path_factory):
    """The server that client tests talk to; each time that tests are sorted so that it is started again, with another volume."""
    root = tmp_path_factory.mktemp(f"server-{request.param}")
    directory = root / "volume"
    directory.mkdir()
    kind = request.config.getoption("--target")
    if kind == "filestore":
        running = Gateway(directory, "--metadata", request.param)
    else:
        running = {"minio": Minio, "versitygw": Versitygw}[kind](directory)
    with running.start(root / "log"):
        yield running


@pytest.fixture
def client(server):
    """boto3."""
    return s3.boto(server)


def bucket_name() -> str:
    return f"b-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def bucket(client):
    """A new bucket on the server, removed with all that the test left in it."""
    name = bucket_name()
    client.create_bucket(Bucket=name)
    yield name
    try:
        s3.empty_bucket(client, name)
        client.delete_bucket(Bucket=name)
    except client.exceptions.NoSuchBucket:
        pass


class Fleet:
    """Starts servers for one test; stops all of them when it ends and shows their output when it failed."""

    def __init__(self, root: Path):
        self.root = root
        self.servers: list[Server] = []

    def _start(self, server: Server) -> Server:
        self.servers.append(server)
        return server.start(self.root / "log")

    def directory(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def gateway(self, volume: Path | None = None, *arguments: str, **environment: str) -> Gateway:
        return self._start(Gateway(volume or self.directory("volume"), *arguments, **environment))

    def unready_gateway(self, volume: Path, *arguments: str, **environment: str) -> UnreadyGateway:
        return self._start(UnreadyGateway(volume, *arguments, **environment))

    def minio(self, drive: Path | None = None, **environment: str) -> Minio:
        return self._start(Minio(drive or self.directory("drive"), **environment))

    def versitygw(self, root: Path, **environment: str) -> Versitygw:
        return self._start(Versitygw(root, **environment))

    def stop(self):
        for server in self.servers:
            server.stop()


@pytest.fixture
def fleet(tmp_path):
    running = Fleet(tmp_path)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def definition():
    """The resource's definition, in the cluster."""
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(REPO / "crds/filestores.yaml"))
    kubectl("wait", "--for=condition=Established", "crd/filestores.filestore.ryax.tech", "--timeout=30s")


@pytest.fixture(scope="module")
def prometheus_kinds():
    """The cluster knows ServiceMonitors and PrometheusRules. Tests for which that matters share the xdist_group "prometheus_kinds"."""
    with known_kinds():
        yield


@pytest.fixture
def namespace(definition):
    made = Namespace()
    yield made
    made.delete()


@pytest.fixture(scope="session")
def shared(definition):
    """A namespace for what is only asked of the API server."""
    made = Namespace()
    yield made
    made.delete()


@pytest.fixture
def operator(namespace, tmp_path):
    made = Operator(namespace, tmp_path).start()
    yield made
    made.kill()


@contextmanager
def turn(alone: bool):
    """A test's time on the cluster, which several processes share: together with others, or alone.

    Whoever comes after one that waits to be alone lets it go first.
    """
    name = f"filestore-e2e-{os.geteuid()}-{zlib.crc32(os.environ['KUBECONFIG'].encode()):08x}"
    with (Path(tempfile.gettempdir()) / f"{name}.queue").open("w") as queue, (Path(tempfile.gettempdir()) / f"{name}.lock").open("w") as lock:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Set-up and tear-down are part of the turn; waiting for it is no part of the test's time limit."""
    with turn(item.get_closest_marker("alone") is not None) if os.environ.get("KUBECONFIG") else nullcontext():
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds to the report of a failed test the end of every server's output, and what the cluster says."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        servers = list(getattr(item.funcargs.get("fleet"), "servers", []))
        if isinstance(item.funcargs.get("server"), Server):
            servers.append(item.funcargs["server"])
        for server in servers:
            report.sections.append((f"output of {server.name} on port {server.port}", server.output()[-3000:]))
        if call.when == "call":
            for source in item.funcargs.values():
                if isinstance(source, (Namespace, Operator)):
                    report.sections.extend(source.report())


@pytest.fixture
def ramfs(tmp_path):
    """A filesystem without extended attributes."""
    if os.geteuid() != 0:
        pytest.skip("mounting ramfs needs root")
    path = tmp_path / "ramfs"
    path.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "ramfs", str(path)], check=True)
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)

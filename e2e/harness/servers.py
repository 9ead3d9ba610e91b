"""Servers that the tests start: our gateway, MinIO and versitygw, each on a free port of 127.0.0.1."""

import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from harness.s3 import boto

# What the users of the file store have: a short access key and a secret of 12 characters.
ACCESS = "ryax"
SECRET = "Ab3dEf6hIj9k"

START_TIMEOUT = 60


def binary() -> str:
    """The `filestore` binary under test."""
    return _program("FILESTORE_BIN")


def minio_binary() -> str:
    return _program("FILESTORE_E2E_MINIO")


def versitygw_binary() -> str:
    return _program("FILESTORE_E2E_VERSITYGW")


def _program(variable: str) -> str:
    path = os.environ.get(variable)
    if not path or not os.access(path, os.X_OK):
        raise RuntimeError(f"{variable} names no program: run the tests with `make e2e`")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without anything that programs under test would take as their settings."""
    prefixes = ("AWS_", "MINIO_", "VGW_", "ROOT_", "FILESTORE_", "RCLONE_", "S3_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(prefixes) and k.lower() not in ("http_proxy", "https_proxy")}
    return kept | extra


class Server:
    """A running server process. `log` is the file that holds what it printed."""

    name = "server"
    # Authority of its certificate, for a server that speaks HTTPS.
    ca: str | None = None

    def __init__(self, directory: Path):
        self.directory = Path(directory)
        self.access, self.secret, self.region = ACCESS, SECRET, "us-east-1"
        self.process: subprocess.Popen | None = None
        self.port = self.admin_port = 0
        self.log: Path | None = None
        self._starts = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return clean_environment()

    def ready_url(self) -> str:
        raise NotImplementedError

    def start(self, log_dir: Path | None = None) -> "Server":
        """Starts the process and waits until it serves. Restarts keep the port."""
        if log_dir is not None:
            self.log_dir = Path(log_dir)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        for _ in range(3):
            if not self.port:
                self.port, self.admin_port = free_port(), free_port()
            self._starts += 1
            self.log = self.log_dir / f"{self.name}-{self.port}-{self._starts}.log"
            with self.log.open("wb") as out:
                self.process = subprocess.Popen(
                    self.command(), stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=self.environment(), cwd=self.log_dir)
            if self._wait_ready() and self.settle():
                return self
            text = self.log.read_text(errors="replace")
            self.stop()
            if self._starts == 1 and "in use" in text:
                self.port = 0  # somebody took the port between looking and listening
                continue
            raise RuntimeError(f"{self.name} did not start:\n{text[-4000:]}")
        raise RuntimeError(f"{self.name}: no free port")

    def _wait_ready(self) -> bool:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            try:
                trust = ssl.create_default_context(cafile=self.ca) if self.ca else None
                with urllib.request.urlopen(self.ready_url(), timeout=2, context=trust) as answer:
                    if answer.status == 200:
                        return True
            except urllib.error.HTTPError as error:
                if error.code in (400, 403):  # it speaks S3
                    return True
            except (OSError, ValueError):
                pass
            time.sleep(0.02)
        return False

    def settle(self) -> bool:
        """A further look for servers that say ready too early."""
        return True

    def stop(self) -> int | None:
        """Ends it in order; kills it after a while. Returns the exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        status = self.process.returncode
        self.process = None
        return status

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log and self.log.exists() else ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Gateway(Server):
    """`filestore gateway VOLUME`. Objects are at `volume/s3/<bucket>/<key>`."""

    name = "filestore"

    def __init__(self, volume: Path, *arguments: str, **environment: str):
        super().__init__(volume)
        self.arguments, self.extra = list(arguments), environment

    @property
    def data_root(self) -> Path:
        return self.directory / "s3"

    @property
    def admin(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    def command(self):
        return [binary(), "gateway", str(self.directory), "--listen", self.host, "--admin-listen", f"127.0.0.1:{self.admin_port}", *self.arguments]

    def environment(self):
        return clean_environment(ROOT_ACCESS_KEY_ID=self.access, ROOT_SECRET_ACCESS_KEY=self.secret) | self.extra

    def ready_url(self):
        return f"{self.admin}/readyz"


class TlsGateway(Gateway):
    """One whose S3 port speaks HTTPS, with `tls.crt` and `tls.key` of a directory."""

    def __init__(self, volume: Path, certificates: Path, ca: Path, *arguments: str, **environment: str):
        super().__init__(volume, "--tls-cert", str(certificates / "tls.crt"), "--tls-key", str(certificates / "tls.key"), *arguments, **environment)
        self.ca = str(ca)

    @property
    def endpoint(self) -> str:
        return f"https://{self.host}"


class UnreadyGateway(Gateway):
    """One that no client is to be led to yet; it serves all the same."""

    def ready_url(self):
        return f"{self.admin}/healthz"

    def readiness(self) -> tuple[int, str]:
        """Status and text of /readyz."""
        try:
            with urllib.request.urlopen(f"{self.admin}/readyz", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Minio(Server):
    """MinIO on a single drive."""

    name = "minio"

    def __init__(self, drive: Path, **environment: str):
        super().__init__(drive)
        self.extra = environment

    def command(self):
        return [minio_binary(), "server", str(self.directory), "--address", self.host, "--certs-dir", str(self.log_dir / "certs"), "--quiet"]

    def environment(self):
        return clean_environment(MINIO_ROOT_USER=self.access, MINIO_ROOT_PASSWORD=self.secret, MINIO_BROWSER="off", MINIO_UPDATE="off", MINIO_CALLHOME_ENABLE="off") | self.extra

    def ready_url(self):
        return f"{self.endpoint}/minio/health/ready"

    def settle(self):
        # Its health answers while the S3 API still says XMinioServerNotInitialized.
        client = boto(self)
        for _ in range(200):
            try:
                client.list_buckets()
                return True
            except client.exceptions.ClientError:
                time.sleep(0.05)
        return False


class TlsMinio(Minio):
    """MinIO with the certificate that lies in `certs` of its log directory: SSE-C keys do not travel in the clear."""

    @property
    def endpoint(self):
        return f"https://{self.host}"

    def ready_url(self):
        return f"http://{self.host}"  # answered with 400: it speaks TLS

    def settle(self):
        return True


class Versitygw(Server):
    """versitygw over a directory of buckets (of our volumes: their `s3/`)."""

    name = "versitygw"

    def __init__(self, root: Path, **environment: str):
        super().__init__(root)
        self.extra = environment

    def command(self):
        return [versitygw_binary(), "--port", self.host, "--access", self.access, "--secret", self.secret, "--health", "/_health", "--keep-alive", "--quiet", "posix", str(self.directory)]

    def environment(self):
        return clean_environment() | self.extra

    def ready_url(self):
        return f"{self.endpoint}/_health"

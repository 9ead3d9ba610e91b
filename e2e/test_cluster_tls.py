"""HTTPS on a real cluster: the certificate comes from a Secret, is followed without a restart, and what is wrong with it is said."""

import base64
import io
import os
import socket
import ssl
import time
from pathlib import Path

import pytest
import requests
import urllib3
from minio import Minio

from harness.cluster import Namespace, filestore, needs_cluster, secret, until
from harness.servers import ACCESS, SECRET
from harness.tls import Authority

pytestmark = needs_cluster

VERSITYGW_IMAGE = os.environ.get("FILESTORE_E2E_VERSITYGW_IMAGE", "")
TLS = {"tls": {"secretRef": {"name": "files-tls"}}}


def address(namespace: Namespace) -> str:
    return namespace.get("service", "files")["spec"]["clusterIP"]


def minio(namespace: Namespace, authority: Authority) -> Minio:
    """minio-py as a program in the cluster has it: through the Service, whose name the certificate must be for."""
    name = f"files.{namespace.name}"
    pool = urllib3.PoolManager(ca_certs=str(authority.ca), cert_reqs="CERT_REQUIRED", server_hostname=name, assert_hostname=name,
                               retries=urllib3.Retry(total=5, backoff_factor=0.2), timeout=20)
    return Minio(f"{address(namespace)}:9000", access_key=ACCESS, secret_key=SECRET, secure=True, region="us-east-1", http_client=pool)


def shown(namespace: Namespace) -> str:
    """The certificate that a new connection gets, PEM."""
    try:
        with socket.create_connection((address(namespace), 9000), timeout=5) as connection:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(connection) as wrapped:
                return ssl.DER_cert_to_PEM_cert(wrapped.getpeercert(binary_form=True))
    except OSError:
        return ""


class Certificates:
    """Certificates of the Service, and the Secret with one of them."""

    def __init__(self, namespace: Namespace, directory: Path):
        self.namespace, self.authority = namespace, Authority(directory)

    def issue(self) -> tuple[bytes, bytes]:
        return self.authority.issue(f"files.{self.namespace.name}")

    def apply(self, certificate: bytes, key: bytes):
        data = {"tls.crt": certificate.decode(), "tls.key": key.decode()}
        self.namespace.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "files-tls"}, "type": "kubernetes.io/tls", "stringData": data})


@pytest.fixture
def certificates(namespace, tmp_path):
    return Certificates(namespace, tmp_path / "authority")


def pod_of(namespace: Namespace) -> dict:
    pods = namespace.pods("filestore.ryax.tech/name=files")
    assert len(pods) == 1, [pod["metadata"]["name"] for pod in pods]
    return pods[0]


def message(found: dict) -> str:
    return next(one["message"] for one in found["status"]["conditions"] if one["type"] == "Stalled")


def test_a_certificate_comes_is_renewed_and_goes_without_a_restart(namespace, operator, certificates):
    users = [{"name": "runner", "grants": [{"bucket": "uploads", "access": "readwrite"}]}]
    spec = {"buckets": [{"name": "uploads"}], "access": {"users": users}, "site": {"name": "lyon"}}
    namespace.apply(secret(), filestore(**TLS, **spec))
    found = namespace.wait("Stalled=True/SecretMissing", seconds=30)
    assert message(found).startswith('spec.tls.secretRef: Secret "files-tls" does not exist')
    assert "deployment" not in namespace("get", "deployments", "-o", "name")

    first, second = certificates.issue(), certificates.issue()
    assert first[0].decode() != second[0].decode()
    certificates.apply(first[0], second[1])
    assert "tls.key is not the key" in message(namespace.wait("Stalled=True/SecretUnusable", seconds=30))
    certificates.apply(*first)
    found = namespace.wait("Ready=True/Serving")

    # All that tells programs where the store is.
    url = f"https://files.{namespace.name}:9000"
    assert found["status"]["endpoint"] == url
    assert base64.b64decode(namespace.get("secret", "files-runner")["data"]["endpoint"]).decode() == url
    assert namespace.get("configmap", "files-site")["data"]["endpoint"] == url
    assert namespace.get("service", "files")["spec"]["ports"][0]["name"] == "https"

    # Who trusts the authority works with it, and nobody else.
    program = minio(namespace, certificates.authority)
    program.put_object("uploads", "a/b", io.BytesIO(b"hello"), 5)
    assert program.get_object("uploads", "a/b").read() == b"hello"
    plain = requests.Session()
    plain.trust_env = False
    with pytest.raises(requests.exceptions.SSLError):
        plain.get(f"https://{address(namespace)}:9000/", timeout=10)
    assert plain.get(f"http://{address(namespace)}:9000/uploads/a/b", timeout=10).status_code == 400, "told, and not served"
    assert shown(namespace) == first[0].decode()

    # Renewed: the next connection sees it, the pod is the same, a program notices nothing.
    pod = pod_of(namespace)
    certificates.apply(*second)
    begun = time.monotonic()
    until("the new certificate is shown", lambda: shown(namespace) == second[0].decode(), 60)
    print(f"renewed after {time.monotonic() - begun:.1f} s")
    assert program.get_object("uploads", "a/b").read() == b"hello"
    assert minio(namespace, certificates.authority).stat_object("uploads", "a/b").size == 5
    # Half of a renewal, and none at all: said, and the store goes on with what it has.
    certificates.apply(first[0], second[1])
    found = namespace.wait("Stalled=True/SecretUnusable", seconds=30)
    assert found["status"]["phase"] == "Degraded"
    namespace("delete", "secret", "files-tls")
    namespace.wait("Stalled=True/SecretMissing", seconds=30)
    assert minio(namespace, certificates.authority).get_object("uploads", "a/b").read() == b"hello"
    certificates.apply(*first)
    namespace.wait("Stalled=False/NoProblem", seconds=30)
    until("the certificate is shown", lambda: shown(namespace) == first[0].decode(), 120)
    now = pod_of(namespace)
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert now["status"]["containerStatuses"][0]["restartCount"] == 0
    until("nothing is written any more", operator.quiet)

    # Switched off, everything says so.
    namespace.apply(filestore(**spec))
    namespace.until("the endpoint is plain again", lambda: namespace.get("filestore", "files")["status"]["endpoint"] == url.replace("https", "http"))
    until("HTTP is answered", lambda: answers(plain, namespace), 60)
    assert base64.b64decode(namespace.get("secret", "files-runner")["data"]["endpoint"]).decode() == url.replace("https", "http")


def answers(session: requests.Session, namespace: Namespace) -> bool:
    """Whether plain HTTP gets an answer of S3: nobody signed anything."""
    try:
        return session.get(f"http://{address(namespace)}:9000/", timeout=5).status_code == 403
    except requests.exceptions.ConnectionError:
        return False


@pytest.mark.skipif(not VERSITYGW_IMAGE, reason="needs FILESTORE_E2E_VERSITYGW_IMAGE: make e2e-operator")
def test_versitygw_is_started_again_with_a_renewed_certificate(namespace, operator, certificates):
    first, second = certificates.issue(), certificates.issue()
    certificates.apply(*first)
    namespace.apply(secret(), filestore(**TLS, engine="versitygw", versitygw={"image": VERSITYGW_IMAGE}, buckets=[{"name": "uploads"}]))
    namespace.wait("Ready=True/Serving")
    program = minio(namespace, certificates.authority)
    program.put_object("uploads", "a/b", io.BytesIO(b"hello"), 5)
    assert shown(namespace) == first[0].decode()

    certificates.apply(*second)
    until("the new certificate is shown", lambda: shown(namespace) == second[0].decode(), 90)
    namespace.wait("Ready=True/Serving")
    assert minio(namespace, certificates.authority).get_object("uploads", "a/b").read() == b"hello"
    until("nothing is written any more", operator.quiet)

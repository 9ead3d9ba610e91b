"""The S3 port over TLS, with real clients that trust the authority of its certificate and nothing else."""

import io
import re
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import boto3
import pytest
import urllib3
from botocore.exceptions import SSLError
from minio import Minio

from harness.cli import migrate
from harness.s3 import boto, md5, pattern, put_multipart
from harness.servers import TlsGateway, Versitygw, binary, clean_environment
from harness.tls import Authority, Mounted
from harness.waiting import until

MIB = 1 << 20
LOCAL = ("IP:127.0.0.1", "localhost")


class Secured:
    """A gateway, the directory that its certificate is mounted to, and the authority."""

    def __init__(self, fleet):
        self.authority = Authority(fleet.directory("authority"))
        self.mounted = Mounted(fleet.root / "tls")
        self.renew()
        self.gateway = fleet._start(TlsGateway(fleet.directory("volume"), self.mounted.directory, self.authority.ca))

    def renew(self, **options) -> bytes:
        certificate, key = self.authority.issue(*LOCAL, **options)
        self.mounted.write(tls_crt=certificate, tls_key=key)
        return ssl.PEM_cert_to_DER_cert(certificate.decode())

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority.ca)

    def connect(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.gateway.port), timeout=20)
        return (context or self.context()).wrap_socket(plain, server_hostname="127.0.0.1")

    def served(self) -> bytes:
        """The certificate that a new connection is shown."""
        with self.connect() as connection:
            return connection.getpeercert(binary_form=True)

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"{self.gateway.admin}/metrics", timeout=10) as answer:
            return float(re.search(rf"^{name} (\S+)$", answer.read().decode(), re.M)[1])


@pytest.fixture
def secured(fleet):
    return Secured(fleet)


def minio_py(gateway) -> Minio:
    http = urllib3.PoolManager(ca_certs=gateway.ca, cert_reqs="CERT_REQUIRED")
    return Minio(gateway.host, access_key=gateway.access, secret_key=gateway.secret, secure=True, http_client=http)


def test_minio_py_stores_and_reads(secured):
    client = minio_py(secured.gateway)
    client.make_bucket("data")
    for size in (0, 1, 70_000, 3 * MIB + 3):
        body = pattern(size)
        assert client.put_object("data", f"o{size}", io.BytesIO(body), size).etag == md5(body)
        answer = client.get_object("data", f"o{size}")
        assert answer.read() == body
        answer.release_conn()
    unknown = pattern(11 * MIB)
    client.put_object("data", "unknown", io.BytesIO(unknown), -1, part_size=5 * MIB)
    assert client.get_object("data", "unknown").read() == unknown
    link = client.presigned_get_object("data", "unknown")
    assert link.startswith("https://")
    with urllib.request.urlopen(link, context=secured.context()) as answer:
        assert answer.read() == unknown


def test_boto3_ranges_multipart_and_urls_of_answers(secured):
    client = boto(secured.gateway, request_checksum_calculation="when_supported")
    client.create_bucket(Bucket="data")
    for size in (0, 5, 300_000):
        # Chunks with a trailer, and over TLS those of HTTP around them, without Content-Length.
        answer = client.put_object(Bucket="data", Key=f"o{size}", Body=io.BytesIO(pattern(size)))
        assert answer["ETag"] == f'"{md5(pattern(size))}"'
        assert client.get_object(Bucket="data", Key=f"o{size}", ChecksumMode="ENABLED")["Body"].read() == pattern(size)
    body = pattern(12 * MIB)
    put_multipart(client, "data", "parts", body, 5 * MIB)
    for first, last in ((0, 0), (5 * MIB - 1, 5 * MIB), (MIB, 9 * MIB), (12 * MIB - 7, 12 * MIB - 1)):
        answer = client.get_object(Bucket="data", Key="parts", Range=f"bytes={first}-{last}")
        assert answer["Body"].read() == body[first:last + 1]

    upload = client.create_multipart_upload(Bucket="data", Key="a b")["UploadId"]
    part = client.upload_part(Bucket="data", Key="a b", UploadId=upload, PartNumber=1, Body=b"x")
    done = client.complete_multipart_upload(Bucket="data", Key="a b", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert done["Location"].startswith(f"https://{secured.gateway.host}/data/"), done["Location"]


def test_a_client_that_does_not_know_the_authority_refuses(secured):
    stranger = boto3.client("s3", endpoint_url=secured.gateway.endpoint, aws_access_key_id="ryax", aws_secret_access_key="x", region_name="us-east-1")
    with pytest.raises(SSLError):
        stranger.list_buckets()


def test_the_migrator_takes_everything_from_it(secured, fleet):
    client = boto(secured.gateway)
    client.create_bucket(Bucket="data")
    bodies = {f"k{size}": pattern(size) for size in (0, 4096, 3 * MIB)}
    for key, body in bodies.items():
        client.put_object(Bucket="data", Key=key, Body=body)
    volume = fleet.directory("copy")
    migrate("copy", secured.gateway, volume, "--from-ca", secured.gateway.ca)
    assert {key: (volume / "s3/data" / key).read_bytes() for key in bodies} == bodies


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_both_versions_of_tls_and_http_1_1_alone(secured, version):
    context = secured.context()
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    with secured.connect(context) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"
        assert connection.version() == f"TLSv{'1.2' if version == ssl.TLSVersion.TLSv1_2 else '1.3'}"


def test_a_renewed_certificate_is_served_and_open_connections_live_on(secured):
    old = secured.served()
    with secured.connect() as living:
        ask = f"GET /?x-id=ListBuckets HTTP/1.1\r\nHost: {secured.gateway.host}\r\n\r\n".encode()
        living.sendall(ask)
        assert living.recv(65536).startswith(b"HTTP/1.1 403")
        end = secured.metric("filestore_tls_certificate_not_after_timestamp_seconds")

        new = secured.renew(days=20)
        until("the new certificate", lambda: secured.served() == new, seconds=60)
        assert new != old

        living.sendall(ask)
        assert living.recv(65536).startswith(b"HTTP/1.1 403")
    later = secured.metric("filestore_tls_certificate_not_after_timestamp_seconds")
    assert later == ssl.cert_time_to_seconds(decoded(secured)["notAfter"]) > end


def decoded(secured) -> dict:
    with secured.connect() as connection:
        return connection.getpeercert()


def test_a_broken_pair_is_told_and_kept_out(secured):
    old = secured.served()
    certificate, _ = secured.authority.issue(*LOCAL)
    _, foreign_key = secured.authority.issue(*LOCAL)
    secured.mounted.write(tls_crt=certificate, tls_key=foreign_key)
    until("the metric", lambda: secured.metric("filestore_tls_last_reload_successful") == 0, seconds=60)
    assert secured.metric("filestore_tls_reload_failures_total") >= 1
    until("the log", lambda: "keeping the pair in force" in secured.gateway.output())
    assert secured.served() == old

    new = secured.renew()
    until("the new certificate", lambda: secured.served() == new, seconds=60)
    assert secured.metric("filestore_tls_last_reload_successful") == 1


def test_plain_http_is_told_to_use_https(secured):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{secured.gateway.host}/data/key", timeout=20)
    assert refused.value.code == 400
    assert "https://" in refused.value.read().decode()


def test_clients_that_never_finish_a_handshake_hold_nobody_up(fleet):
    secured = Secured(fleet)
    secured.gateway.stop()
    patient = fleet._start(TlsGateway(fleet.root / "volume", secured.mounted.directory, secured.authority.ca, "--idle-timeout", "2"))
    silent = [socket.create_connection(("127.0.0.1", patient.port), timeout=30) for _ in range(50)]
    for half in silent[:25]:
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
    assert boto(patient).list_buckets()["Buckets"] == []
    for connection in silent:
        assert connection.recv(1) == b""
        connection.close()


def test_it_ends_in_order_with_connections_open(secured):
    with secured.connect(), socket.create_connection(("127.0.0.1", secured.gateway.port)):
        assert secured.gateway.stop() == 0


@pytest.mark.parametrize("given, said", [
    (["--tls-cert", "tls.crt"], "--tls-key"),
    (["--tls-key", "tls.key"], "--tls-cert"),
    (["--tls-cert", "absent.crt", "--tls-key", "tls.key"], "absent.crt"),
    (["--tls-cert", "tls.key", "--tls-key", "tls.key"], "no certificate"),
    (["--tls-cert", "tls.crt", "--tls-key", "other.key"], "other.key"),
])
def test_what_cannot_be_served_refuses_the_start(tmp_path, given, said):
    authority = Authority(tmp_path / "authority")
    for name in ("tls", "other"):
        certificate, key = authority.issue(*LOCAL)
        (tmp_path / f"{name}.crt").write_bytes(certificate)
        (tmp_path / f"{name}.key").write_bytes(key)
    (tmp_path / "volume").mkdir()
    ended = subprocess.run([binary(), "gateway", "volume", "--listen", "127.0.0.1:0", "--admin-listen", "none", *given], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                           env=clean_environment(ROOT_ACCESS_KEY_ID="ryax", ROOT_SECRET_ACCESS_KEY="s"))
    assert ended.returncode == 2, ended
    assert said in ended.stderr + ended.stdout
    assert not list((tmp_path / "volume").iterdir())


def test_variables_of_versitygw_serve_the_same_volume(secured, fleet):
    """One pod template for both engines."""
    variables = {"VGW_CERT": str(secured.mounted.directory / "tls.crt"), "VGW_KEY": str(secured.mounted.directory / "tls.key")}
    boto(secured.gateway).create_bucket(Bucket="data")
    boto(secured.gateway).put_object(Bucket="data", Key="k", Body=b"over TLS")
    secured.gateway.stop()

    class Tls(Versitygw):
        endpoint = TlsGateway.endpoint
        ca = str(secured.authority.ca)

    peer = fleet._start(Tls(fleet.root / "volume/s3", **variables))
    assert boto(peer).get_object(Bucket="data", Key="k")["Body"].read() == b"over TLS"
    peer.stop()

    by_variables = TlsGateway(fleet.root / "volume", secured.mounted.directory, secured.authority.ca, **variables)
    by_variables.arguments = []
    assert boto(fleet._start(by_variables)).get_object(Bucket="data", Key="k")["Body"].read() == b"over TLS"

"""`filestore migrate` between real servers that are away, unknown, behind proxies, or not to be trusted."""

import json
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from harness.cli import migrate, migrate_command
from harness.proxy import Proxy
from harness.s3 import boto, keys, pattern
from harness.servers import Minio
from harness.waiting import until


def fill(server, bucket: str, count: int) -> None:
    client = boto(server)
    client.create_bucket(Bucket=bucket)
    for number in range(count):
        client.put_object(Bucket=bucket, Key=f"k{number:04d}", Body=pattern(1000 + number))


def on_volume(volume: Path, bucket: str) -> set[str]:
    return {path.name for path in (volume / "s3" / bucket).glob("k*")}


def test_a_source_that_restarts_in_the_middle_is_waited_for(fleet):
    minio, volume = fleet.minio(), fleet.directory("volume")
    fill(minio, "abc", 200)
    command, environment = migrate_command("run", minio, volume, "--rate", "80", "--wait", "120", "--verify", "bytes")
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until("the copy begins", lambda: len(on_volume(volume, "abc")) >= 20 or running.poll() is not None, seconds=60, every=0.02)
        minio.stop()
        assert len(on_volume(volume, "abc")) < 200, "stopped in the middle"
        line = ""
        while not line.startswith("waiting: "):
            line = running.stderr.readline()
            assert line, "ended without waiting"
        # MinIO answers what it still reads while it shuts down with 503 and "Retry-After: 60".
        assert re.search("refused|503", line), line
        minio.start()
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 0, out + err
    assert on_volume(volume, "abc") == {f"k{number:04d}" for number in range(200)}


def test_a_source_that_stays_away_ends_the_run_and_a_rerun_goes_on(fleet):
    minio, volume = fleet.minio(), fleet.directory("volume")
    fill(minio, "abc", 200)
    command, environment = migrate_command("copy", minio, volume, "--rate", "80", "--wait", "2")
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until("the copy begins", lambda: len(on_volume(volume, "abc")) >= 20 or running.poll() is not None, seconds=60, every=0.02)
    minio.stop()
    _, err = running.communicate(timeout=120)
    assert running.returncode == 4, err
    assert "answered nobody for 2 s (--wait)" in err.splitlines()[-1], err
    minio.start()
    migrate("copy", minio, volume)
    assert len(on_volume(volume, "abc")) == 200


PROBE = ".filestore-probe-7f2c1d0e-8a4b-4c3d-9e5f-001122334455"


def test_probes_of_killed_programs_count_nowhere_and_go(fleet):
    """A program that dies between writing its probe and removing it leaves an object of known content."""
    source, target = (fleet.minio(fleet.directory(name)) for name in ("one", "two"))
    fill(source, "abc", 3)
    client = boto(target)
    client.create_bucket(Bucket="abc")
    uuid = PROBE.removeprefix(".filestore-probe-")
    notes = PROBE.replace("7f2c", "0000")
    for server in (source, target):
        boto(server).put_object(Bucket="abc", Key=PROBE, Body=uuid.encode())
    state = ["--state-dir", str(fleet.directory("state"))]
    found = json.loads(migrate("plan", source, target, *state, "--json").stdout)
    assert (found["objects"], found["create"], found["delete"]) == (3, 3, 0)
    migrate("run", source, target, *state)
    assert keys(client, "abc") == ["k0000", "k0001", "k0002"]
    assert PROBE in keys(boto(source), "abc"), "the source is only read"
    assert "verified 3 objects" in migrate("final", source, fleet.directory("volume")).stdout
    # What somebody else called so is an object like any other.
    boto(source).put_object(Bucket="abc", Key=notes, Body=b"notes of the very same length, 36 B.")
    migrate("run", source, target, *state)
    assert notes in keys(client, "abc")


class Resolver:
    """A name server that answers everything with one code, or (None) never. Needs root for port 53."""

    def __init__(self, code: int | None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.53.0.1", 53))
        self.code = code
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while (received := self.socket.recvfrom(512))[0] != b"end":
            question, client = received
            if self.code is not None:
                # Response, recursion available; the question comes back, without any record.
                answer = question[:2] + bytes([0x81, 0x80 | self.code]) + question[4:6] + bytes(6) + question[12:]
                self.socket.sendto(answer, client)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", ("127.53.0.1", 53))
        self.thread.join()
        self.socket.close()


@pytest.mark.parametrize("code,verb,exit_code,words,marker", [
    (3, "run", 0, "nothing to migrate", True),
    (3, "copy", 4, "Name or service not known|Name does not resolve", False),
    (2, "run", 4, "Temporary failure in name resolution|Try again", False),
    (None, "run", 4, "Temporary failure in name resolution|Try again", False),
], ids=["nxdomain-run", "nxdomain-copy", "servfail", "silence"])
def test_a_name_that_does_not_exist_is_told_from_a_resolver_that_fails(tmp_path, code, verb, exit_code, words, marker):
    """Only the former means that there is no legacy store (the gateway may start); the others are waited for."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("a private /etc/resolv.conf needs root")
    settings = tmp_path / "resolv.conf"
    settings.write_text("nameserver 127.53.0.1\noptions timeout:1 attempts:1\n")
    volume = tmp_path / "volume"
    volume.mkdir()
    command, environment = migrate_command(verb, "unused", volume, "--wait", "0", "--absent-after", "0")
    command[command.index("--from") + 1] = "http://legacy-minio.storage.svc:9000"
    environment |= {"FILESTORE_FROM_ACCESS_KEY": "ryax", "FILESTORE_FROM_SECRET_KEY": "Ab3dEf6hIj9k"}
    script = f'mount --bind {settings} /etc/resolv.conf && exec "$@"'
    with Resolver(code):
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *command], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert re.search(words, done.stdout + done.stderr), done.stdout + done.stderr
    assert (volume / ".filestore/migration.json").exists() == marker


def test_a_server_that_takes_no_connection_is_down(tmp_path):
    """As behind a firewall that drops: neither refused nor answered."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        try:
            for _ in range(4):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(full.getsockname())
                waiting.append(client)
            command, environment = migrate_command("copy", "unused", tmp_path, "--wait", "0")
            command[command.index("--from") + 1] = f"http://127.0.0.1:{full.getsockname()[1]}"
            environment |= {"FILESTORE_FROM_ACCESS_KEY": "ryax", "FILESTORE_FROM_SECRET_KEY": "Ab3dEf6hIj9k"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        finally:
            for client in waiting:
                client.close()
    assert done.returncode == 4, done.stderr
    assert "timeout: no connection came about within 5s" in done.stderr, done.stderr
    assert not (tmp_path / ".filestore/migration.json").exists()


def test_the_region_is_learned_on_both_sides(fleet):
    source, target = (Minio(fleet.directory(name), MINIO_SITE_REGION="eu-paris-1") for name in ("one", "two"))
    for server in (source, target):
        server.region = "eu-paris-1"
        fleet._start(server)
    fill(source, "abc", 5)
    migrate("run", source, target, "--state-dir", str(fleet.directory("state")))
    assert keys(boto(target), "abc") == [f"k{number:04d}" for number in range(5)]


class TlsMinio(Minio):
    """MinIO whose certificate is made by an authority that nobody knows."""

    def __init__(self, drive: Path, directory: Path):
        super().__init__(drive)
        self.ca = str(directory / "ca.pem")
        self.certificates = directory / "certs"
        self.certificates.mkdir(parents=True)
        make = lambda *arguments: subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=directory)  # noqa: E731
        make("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=Test authority", "-keyout", "ca.key", "-out", "ca.pem")
        make("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=minio", "-keyout", "certs/private.key", "-out", "server.csr")
        (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        make("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "certs/public.crt")

    @property
    def endpoint(self) -> str:
        return f"https://{self.host}"

    def command(self):
        command = super().command()
        command[command.index("--certs-dir") + 1] = str(self.certificates)
        return command


def test_an_unknown_authority_is_named_trusted_or_ignored_but_never_by_itself(fleet):
    minio = TlsMinio(fleet.directory("drive"), fleet.directory("tls"))
    fleet._start(minio)
    fill(minio, "abc", 3)
    untouched = fleet.directory("untouched")

    done = migrate("run", minio, untouched, "--wait", "0", code=2)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "certificate" in done.stderr and "--from-ca" in done.stderr, done.stderr
    assert not (untouched / "s3/abc").exists()

    done = migrate("run", minio, fleet.directory("trusted"), "--from-ca", minio.ca)
    assert "warning" not in done.stderr, done.stderr
    assert len(on_volume(fleet.root / "trusted", "abc")) == 3

    done = migrate("run", minio, fleet.directory("ignored"), "--from-insecure")
    assert done.stderr.startswith("warning: --from-insecure: the certificate of the source is not checked"), done.stderr
    assert len(on_volume(fleet.root / "ignored", "abc")) == 3

    # As a target, by a certificate that is for another name as well.
    elsewhere = fleet.minio(fleet.directory("plain"))
    fill(elsewhere, "def", 3)
    command, environment = migrate_command("copy", elsewhere, minio, "--to-insecure", "--state-dir", str(fleet.directory("state")))
    command[command.index("--to") + 1] = f"https://localhost:{minio.port}"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert keys(boto(minio), "def") == ["k0000", "k0001", "k0002"]


def changed(headers: dict, name: str, value: str) -> dict:
    return {key: old for key, old in headers.items() if key.lower() != name.lower()} | {name: value}


def test_proxies_that_touch_headers(fleet):
    minio = fleet.minio()
    fill(minio, "abc", 5)

    # MinIO compresses its listings then.
    with Proxy(minio, rewrite=lambda headers: changed(headers, "Accept-Encoding", "gzip, br")) as proxy:
        migrate("run", proxy, fleet.directory("volume"), "--verify", "bytes")
        assert len(on_volume(fleet.root / "volume", "abc")) == 5

    with Proxy(minio, rewrite=lambda headers: changed(headers, "Host", "minio.storage.svc:9000")) as proxy:
        done = migrate("copy", proxy, fleet.directory("other"), "--wait", "0", code=6)
        assert "SignatureDoesNotMatch" in done.stderr and "changed the Host header" in done.stderr, done.stderr
        assert not (fleet.root / "other/s3/abc").exists()


def test_a_wrong_secret_creates_nothing(fleet):
    minio, target = fleet.minio(), fleet.minio(fleet.directory("target"))
    fill(minio, "abc", 2)
    minio.secret = "not-the-secret"
    for verb in ("plan", "copy", "run"):
        volume = fleet.directory(f"volume-{verb}")
        done = migrate(verb, minio, volume, "--wait", "0", code=6)
        assert "SignatureDoesNotMatch" in done.stderr, done.stderr
        assert not (volume / ".filestore/migration.json").exists()
        assert not (volume / "s3").exists() or not any((volume / "s3").iterdir())
    state = fleet.directory("state")
    migrate("run", minio, target, "--wait", "0", "--state-dir", str(state), code=6)
    assert boto(target).list_buckets()["Buckets"] == []
    assert not any(state.iterdir())

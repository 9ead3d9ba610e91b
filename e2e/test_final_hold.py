"""`migrate final --hold-file`: everything is ready before the writers stop, and what they did until then is carried."""

import json
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from harness.cli import marker, migrate, migrate_command
from harness.s3 import boto, pattern, snapshot
from harness.servers import free_port
from test_plan import aged
from test_takeover import assert_same

KIB = 1 << 10


class Held:
    """A `final` in the background that waits for `go`."""

    def __init__(self, fleet, source, volume: Path, *arguments: str, name: str = "files-1"):
        self.go, self.summary_file, self.admin = fleet.root / "go", fleet.root / "summary.json", f"127.0.0.1:{free_port()}"
        command, environment = migrate_command("final", source, volume, "--id", name, "--hold-file", str(self.go),
                                               "--admin-addr", self.admin, "--summary-file", str(self.summary_file), *arguments)
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def wait(self) -> "Held":
        while self.get("/readyz")[0] != 200:
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)
        return self

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def say(self, text: str):
        """As kubelet does: a new file takes the place of the old one."""
        new = self.go.with_suffix(".new")
        new.write_text(text)
        new.rename(self.go)

    def end(self, code: int = 0) -> dict:
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == code, f"{out[-3000:]}\n{err[-3000:]}"
        text = self.summary_file.read_bytes()
        assert len(text) <= 4096
        return json.loads(text) | {"err": err}


@pytest.fixture
def filled(fleet):
    minio = fleet.minio()
    client = boto(minio)
    for bucket in ("data", "emptied"):
        client.create_bucket(Bucket=bucket)
    for i in range(60):
        client.put_object(Bucket="data", Key=f"d{i % 5}/k{i:02d}", Body=pattern((10, 5 * KIB, 200 * KIB)[i % 3], str(i)), Metadata={"n": str(i)})
    client.put_object(Bucket="emptied", Key="only", Body=b"only")
    return minio, client


def write_meanwhile(client) -> None:
    client.put_object(Bucket="data", Key="d0/k00", Body=b"changed", ContentType="text/changed")
    client.put_object(Bucket="data", Key="late", Body=b"late", Tagging="a=1")
    client.create_bucket(Bucket="new-bucket")
    client.put_object(Bucket="new-bucket", Key="new", Body=b"new")
    client.delete_object(Bucket="data", Key="d1/k01")
    client.delete_object(Bucket="emptied", Key="only")


@pytest.mark.parametrize("source", ["drive", "server"])
def test_what_is_written_until_the_word_is_carried(fleet, filled, source):
    minio, client = filled
    volume = fleet.directory("volume")
    told = fleet.root / "copy.json"
    migrate("copy", minio, volume, "--id", "files-1", "--summary-file", str(told))
    first = json.loads(told.read_text())
    assert (first["outcomes"]["copied"], first["differed"], first["onlyOnTarget"]) == (61, 61, 0)
    assert "parts" not in first
    client.put_object(Bucket="data", Key="before", Body=b"written before it is held")
    client.delete_object(Bucket="data", Key="d2/k02")
    migrate("copy", minio, volume, "--id", "files-1", "--summary-file", str(told))
    second = json.loads(told.read_text())
    assert (second["outcomes"]["copied"], second["copiedBytes"], second["differed"], second["onlyOnTarget"]) == (1, 25, 1, 1)
    client.put_object(Bucket="data", Key="before", Body=b"and again, while the pod starts")

    drive = source == "drive"
    held = Held(fleet, minio.directory if drive else minio, volume, *["--source-is-stopped"] * drive).wait()
    assert "filestore_migrate_held 1" in held.get("/metrics")[1]
    assert (volume / "s3/data/before").read_bytes() == b"and again, while the pod starts"
    assert (volume / "s3/data/d2/k02").exists(), "nothing is deleted before the word"
    assert marker(volume)["state"] == "copying"
    for text in ("", "no", "gone"):
        held.say(text)
    write_meanwhile(client)
    expected = snapshot(client)
    assert held.get("/readyz")[0] == 200
    if drive:
        minio.stop()
    held.say("go\n")
    summary = held.end()

    assert set(summary["parts"]) == {"waitedSeconds", "finalSeconds", "verifySeconds", "markerSeconds"}
    assert all(isinstance(seconds, (int, float)) and seconds >= 0 for seconds in summary["parts"].values())
    assert 0 < sum(summary["parts"].values()) <= summary["seconds"] + 1
    assert (summary["exit"], summary["ending"], summary["marker"]["state"]) == (0, "migrated", "verified")
    assert summary["outcomes"]["deleted"] == 3 and summary["marker"]["carried"]["objects"] == 61
    assert "held:" in summary["err"] and "go:" in summary["err"]
    now = marker(volume)
    assert (now["state"], now["runId"], "cutoverAt" in now) == ("verified", "files-1", False)
    assert set(now["source"]["buckets"]) == {"data", "emptied", "new-bucket"}
    gateway = fleet.unready_gateway(volume, "--require-marker", "files-1")
    assert gateway.readiness()[0] == 503
    assert_same(snapshot(boto(gateway)), expected)


def test_killed_at_any_point_the_same_id_goes_on(fleet, filled):
    minio, client = filled
    volume = fleet.directory("volume")
    held = Held(fleet, minio, volume)
    while not (volume / "s3/data").exists():
        assert held.process.poll() is None
        time.sleep(0.002)
    held.kill()  # while it copies
    held = Held(fleet, minio, volume).wait()
    held.kill()  # while it is held
    assert marker(volume)["state"] == "copying"
    refused = migrate("final", minio, volume, "--id", "files-2", "--hold-file", str(held.go), code=5)
    assert "files-1" in refused.stderr, refused.stderr
    write_meanwhile(client)
    expected = snapshot(client)
    for pause in (0, 0.01, 0.03, 0.1, 0.3):
        held = Held(fleet, minio, volume).wait()
        held.say("go")
        try:
            held.process.wait(pause)
        except subprocess.TimeoutExpired:
            pass
        held.kill()  # in the final pass
        held.go.unlink()
        assert marker(volume)["state"] in ("copying", "verified")
    held = Held(fleet, minio, volume).wait()
    held.process.send_signal(signal.SIGTERM)
    assert held.end(130)["exit"] == 130  # in order, while it is held
    held = Held(fleet, minio, volume).wait()
    held.say("go")
    assert held.end()["marker"]["state"] == "verified"
    assert_same(snapshot(boto(fleet.unready_gateway(volume))), expected)


def test_another_store_behind_the_name_is_refused(fleet, filled):
    minio, _ = filled
    volume = fleet.directory("volume")
    held = Held(fleet, minio, volume).wait()
    minio.stop()
    other = type(minio)(fleet.directory("other"))
    other.port, other.admin_port = minio.port, minio.admin_port
    fleet._start(other)
    held.say("go")
    assert "not the store" in held.end(5)["error"]
    assert marker(volume)["state"] == "copying"
    other.stop()
    minio.start()
    held = Held(fleet, minio, volume)  # the word is still there
    assert held.end()["marker"]["state"] == "verified"


def test_too_many_deletions_are_refused_before_anybody_stops(fleet, filled):
    minio, client = filled
    volume = fleet.directory("volume")
    migrate("copy", minio, volume, "--id", "files-1")
    for key in ("d1/k01", "d2/k02"):
        client.delete_object(Bucket="data", Key=key)
    early = Held(fleet, minio, volume, "--max-delete", "1").end(5)
    assert early["error"].startswith("delete extraneous objects: 2 objects would go, more than --max-delete 1 allows; find out who"), early["error"]
    assert "held:" not in early["err"]
    # As many as allowed, until another one goes after it was held.
    held = Held(fleet, minio, volume, "--max-delete", "2").wait()
    client.delete_object(Bucket="data", Key="d3/k03")
    held.say("go")
    assert "3 objects would go" in held.end(5)["error"]
    assert all((volume / "s3/data" / key).exists() for key in ("d1/k01", "d2/k02", "d3/k03"))
    assert marker(volume)["state"] == "copying"
    held.go.unlink()
    held = Held(fleet, minio, volume, "--max-delete", "3").wait()
    held.say("go")
    assert held.end()["outcomes"]["deleted"] == 3
    assert_same(snapshot(boto(fleet.unready_gateway(volume))), snapshot(client))


def test_bad_input_is_told_before_anything_is_done(fleet, filled):
    minio, _ = filled
    volume = fleet.directory("volume")
    told = migrate("final", minio, volume, "--hold-file", str(fleet.root), code=2)
    assert "--hold-file" in told.stderr, told.stderr
    told = migrate("final", minio, volume, "--source-is-stopped", code=2)
    assert "leave it out" in told.stderr, told.stderr
    told = migrate("final", minio, volume, "--id", "../../x", code=2)
    assert "letters, digits" in told.stderr, told.stderr
    assert not (volume / ".filestore/migration.json").exists()


def test_a_drive_that_is_written_is_not_stopped(fleet, filled):
    """Whatever the caller vouches for: a change between the two looks shows."""
    minio, client = filled
    volume = fleet.directory("volume")
    held = Held(fleet, minio.directory, volume, "--source-is-stopped").wait()
    done = threading.Event()

    def write():
        number = 0
        while not done.is_set():
            number += 1
            client.put_object(Bucket="data", Key=f"d0/during{number % 20}", Body=pattern(KIB, str(number)))

    writer = threading.Thread(target=write)
    writer.start()
    held.say("go")
    out, err = held.process.communicate(timeout=120)
    done.set()
    writer.join()
    assert held.process.returncode in (1, 3, 5, 7), out + err
    assert marker(volume)["state"] == "copying", out + err
    minio.stop()
    held.go.unlink()
    held = Held(fleet, aged(minio.directory), volume, "--source-is-stopped").wait()
    minio.start()
    expected = snapshot(client)
    minio.stop()
    held.say("go")
    held.end()
    assert_same(snapshot(boto(fleet.unready_gateway(volume))), expected)

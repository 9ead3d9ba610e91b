"""What people and machines see of a migration while it runs, and after it ended in whatever way."""

import json
import os
import pty
import signal
import subprocess
import threading
import urllib.request

from harness.cli import marker, migrate, migrate_command
from harness.counting import CountingProxy
from harness.proxy import Proxy
from harness.s3 import boto, pattern
from harness.servers import free_port

SUMMARY_LIMIT = 4096  # of a Pod's termination message
IMPATIENT = 60  # seconds until a test gives up; nothing is asserted of time


def start(verb, source, target, *arguments) -> subprocess.Popen:
    command, environment = migrate_command(verb, source, target, *arguments)
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen) -> str:
    """The next line on standard error. The process is killed when none comes, so that reading ends."""
    timer = threading.Timer(IMPATIENT, process.kill)
    timer.start()
    try:
        return process.stderr.readline()
    finally:
        timer.cancel()


def get(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=IMPATIENT) as answer:
        return answer.read().decode()


def filled(fleet, count: int = 20, size: int = 1000):
    minio = fleet.minio()
    client = boto(minio)
    client.create_bucket(Bucket="data")
    for number in range(count):
        client.put_object(Bucket="data", Key=f"{number:03d}", Body=pattern(size))
    return minio


def test_a_listing_that_takes_long_is_seen_to_be_one(fleet, tmp_path):
    """The listing is held back: what is said comes before any of its answers."""
    minio = filled(fleet)
    address, summary = f"127.0.0.1:{free_port()}", tmp_path / "summary.json"
    listing = lambda path: path.startswith("/data") and "list-type=2" in path  # noqa: E731
    with Proxy(minio, hold=listing) as slow:
        process = start("copy", slow, fleet.directory("plain"), "--progress", "plain", "--admin-addr", address, "--summary-file", str(summary))
        assert line_of(process).startswith("copy: listing, 0 objects so far")
        assert not slow.released.is_set() and process.poll() is None
        assert get(address, "/healthz") == "ok\n"
        metrics = get(address, "/metrics")
        for line in ('filestore_migrate_phase{phase="copy"} 1', 'filestore_migrate_objects_total{outcome="copied"} 0', "filestore_migrate_listed_objects 0", "filestore_migrate_retries_total 0", "# EOF"):
            assert line in metrics.splitlines(), metrics

        # A signal while it waits: the summary says what ended it.
        process.send_signal(signal.SIGTERM)
        slow.release()
        process.communicate(timeout=IMPATIENT)
        assert process.returncode == 130
        told = json.loads(summary.read_text())
        assert (told["exit"], told["command"], told["meaning"]) == (130, "copy", "stopped by a signal; a rerun resumes")
        assert "stopped" in told["error"]


def test_progress_as_json_is_json_to_the_last_line(fleet, tmp_path):
    minio = filled(fleet)
    drive, volume, summary, report = minio.directory, fleet.directory("volume"), tmp_path / "summary.json", tmp_path / "report.jsonl"
    minio.stop()
    # One object that nobody can read.
    (drive / "data/broken").mkdir()
    (drive / "data/broken/xl.meta").write_bytes(b"XL2 broken")
    arguments = ["--progress", "json", "--summary-file", str(summary), "--report", str(report)]
    done = migrate("copy", drive, volume, *arguments, code=1)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["phase"] for event in events if event["event"] == "phase"] == ["copy"]
    last = events[-2]
    assert last["event"] == "end" and last["outcomes"] == {"copied": 20, "skipped": 0, "deleted": 0, "failed": 0}
    assert last["copiedBytes"] == 20_000 and last["listed"]["objects"] == 20 and last["inFlight"] == 0
    assert events[-1] == {"event": "summary", "summary": json.loads(summary.read_text())}
    told = events[-1]["summary"]
    assert told["exit"] == 1 and told["outcomes"]["copied"] == 20
    (reason, left), = [(r, n) for r, n in told["notCarried"].items() if n["count"]]
    assert left["count"] == 1 and left["examples"][0].startswith("data/broken"), reason
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert sorted(line["object"] for line in lines) == [f"data/{n:03d}" for n in range(20)]
    assert all(line["outcome"] == "copied" and line["bytes"] == 1000 for line in lines)


def test_how_much_there_is_shows_while_the_first_pass_runs(fleet, tmp_path):
    """The source is counted beside its first pass, by listings alone; later passes know it."""
    minio = filled(fleet, 20, size=100_000)
    volume = fleet.directory("volume")

    def copied(*arguments: str) -> tuple[list[dict], list[dict[str, str]]]:
        with CountingProxy(minio) as proxy:
            done = migrate("copy", proxy, volume, "--progress", "json", *arguments)
            return [json.loads(line) for line in done.stderr.splitlines()], proxy.lists()

    # Slow enough that its end is not what tells.
    events, listings = copied("--bandwidth", "200k")
    told = [event for event in events if event["event"] == "progress" and event["phase"] == "copy" and event["objects"]["total"]]
    assert told, events
    assert all((event["objects"]["total"], event["bytes"]["total"]) == (20, 2_000_000) for event in told)
    assert told[0]["bytes"]["done"] < 2_000_000 and told[0]["outcomes"]["copied"] < 20
    end = next(event for event in events if event["event"] == "end")
    assert (end["objects"]["done"], end["bytes"]["done"], end["outcomes"]["copied"]) == (20, 2_000_000, 20)
    events, again = copied()
    assert len(listings) == len(again) + 1
    told = next(event for event in events if event["event"] == "progress")
    assert (told["objects"]["total"], told["bytes"]["total"]) == (20, None)


def test_the_report_has_the_outcome_of_every_object_that_was_touched(fleet, tmp_path):
    minio = filled(fleet, 5)
    client, volume, report = boto(minio), fleet.directory("volume"), tmp_path / "report.jsonl"
    migrate("copy", minio, volume)
    client.delete_object(Bucket="data", Key="001")
    client.put_object(Bucket="data", Key="002", Body=b"changed")
    client.put_object(Bucket="data", Key="new", Body=b"new")
    migrate("final", minio, volume, "--report", str(report))
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert sorted((line["outcome"], line["object"]) for line in lines) == [("copied", "data/002"), ("copied", "data/new"), ("deleted", "data/001")]


def test_every_ending_leaves_a_summary_that_fits(fleet, tmp_path):
    minio = filled(fleet, 3)
    summary = tmp_path / "summary.json"

    def told() -> dict:
        text = summary.read_bytes()
        assert len(text) <= SUMMARY_LIMIT
        return json.loads(text)

    volume = fleet.directory("volume")
    migrate("run", minio, volume, "--summary-file", str(summary))
    end, mark = told(), marker(volume)
    assert (end["exit"], end["ending"], end["error"]) == (0, "migrated", None)
    assert end["marker"]["state"] == "cutover" and end["marker"]["digest"] == mark["digest"]
    assert end["marker"]["carried"] == mark["carried"] and end["outcomes"]["copied"] == 3
    # A second run replaces it, also by a shorter one.
    migrate("run", minio, volume, "--summary-file", str(summary))
    assert told()["ending"] == "rechecked"

    wrong, minio.secret = minio.secret, "wrong-secret"
    refused = migrate("copy", minio, fleet.directory("other"), "--summary-file", str(summary), code=6)
    minio.secret = wrong
    end = told()
    assert end["exit"] == 6 and end["error"] in refused.stderr

    # Many objects that fail, each with a long name: examples give way, counts do not.
    client = boto(minio)
    client.create_bucket(Bucket="versions")
    client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    for number in range(12):
        for _ in range(2):
            client.put_object(Bucket="versions", Key="/".join([f"{number:02d}" + "\u00e9" * 100] * 4), Body=b"x")
    migrate("run", minio, fleet.directory("long"), "--summary-file", str(summary))
    assert told()["notCarried"]["noncurrentVersions"]["count"] == 12

    # A file that cannot be written is noticed before anything is done.
    untouched = fleet.directory("untouched")
    migrate("run", minio, untouched, "--summary-file", str(tmp_path / "none/summary.json"), code=2)
    assert not any(untouched.iterdir())


def test_bars_on_a_terminal_end_with_what_each_phase_did(fleet):
    minio = filled(fleet, 3)
    command, environment = migrate_command("run", minio, fleet.directory("volume"))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=environment | {"TERM": "xterm"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # nobody holds the other end any more
            break
        if not piece:
            break
        shown += piece
    process.communicate(timeout=IMPATIENT)
    os.close(ours)
    assert process.returncode == 0
    text = shown.decode(errors="replace")
    assert "\x1b[" in text, "bars move the cursor"
    for line in ("copy: 3 objects, 2.9 KiB in ", "verify: 3 objects, 2.9 KiB in "):
        assert line in text, text


def test_no_progress_is_silent(fleet):
    minio = filled(fleet, 1)
    done = migrate("run", minio, fleet.directory("volume"), "--progress", "none")
    assert done.stderr == "" and "copied 1 new" in done.stdout

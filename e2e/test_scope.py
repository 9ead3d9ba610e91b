"""Which objects a migration is about: buckets, names, keys, times; and that nothing else is touched."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest

from harness.cli import filestore, marker, migrate, migrate_command
from harness.counting import CountingProxy
from harness.s3 import boto, describe, keys, snapshot
from harness.servers import Gateway, Minio, binary, clean_environment


def fill(client, **buckets: list[str]) -> None:
    for bucket, names in buckets.items():
        bucket = bucket.replace("_", "-")
        client.create_bucket(Bucket=bucket)
        for name in names:
            client.put_object(Bucket=bucket, Key=name, Body=f"{bucket}/{name}".encode())


def contents(client) -> dict[str, list[str]]:
    return {bucket["Name"]: keys(client, bucket["Name"]) for bucket in client.list_buckets()["Buckets"]}


def names(volume, bucket: str = "data") -> list[str]:
    """Keys that a volume holds, without a gateway."""
    root = volume / "s3" / bucket
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def minio(fleet):
    return fleet.minio()


def test_buckets_are_chosen_renamed_and_left_out(fleet, minio):
    source = boto(minio)
    fill(source, alpha=["a"], beta=["b"], gamma=["c"], empty=[])
    volume = fleet.directory("volume")
    migrate("run", minio, volume, "--bucket", "alpha", "--bucket", "beta=renamed", "--bucket", "empty")
    assert marker(volume)["scope"] == {"buckets": ["alpha", "beta=renamed", "empty"]}
    assert marker(volume)["source"]["buckets"] == ["alpha", "beta", "empty"]
    client = boto(fleet.gateway(volume))
    assert contents(client) == {"alpha": ["a"], "renamed": ["b"], "empty": []}
    assert describe(client, "renamed", "b") == describe(source, "beta", "b")
    other = fleet.directory("other")
    migrate("run", minio, other, "--exclude-bucket", "gamma", "--exclude-bucket", "empty")
    assert sorted(path.name for path in (other / "s3").iterdir()) == ["alpha", "beta"]


@pytest.mark.parametrize("arguments, told", [
    (["--bucket", "alpha", "--bucket", "nope"], ["nope", "does not exist", "alpha, beta"]),
    (["--bucket", "alpha=UPPER"], ["UPPER", "not valid"]),
    (["--bucket", "alpha=same", "--bucket", "beta=same"], ["same", "alpha"]),
    (["--bucket", "alpha", "--exclude-bucket", "alpha"], ["alpha", "chosen and excluded"]),
    (["--include", "x["], ["x[", "no glob"]),
    (["--newer", "yesterday"], ["yesterday", "is no time"]),
])
def test_what_cannot_be_meant_is_one_clear_line(fleet, arguments, told, legacy):
    volume = fleet.directory("volume")
    done = migrate("run", legacy, volume, *arguments, code=2)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and all(text in lines[0] for text in told), done.stderr
    assert not (volume / "s3/alpha").exists()


@pytest.fixture(scope="module")
def legacy(tmp_path_factory):
    root = tmp_path_factory.mktemp("legacy")
    with Minio(root / "drive").start(root / "log") as server:
        fill(boto(server), alpha=["a/1", "a/2", "b/1", "tmp/x", "z.csv", "deep/z.csv"], beta=["b"])
        yield server


@pytest.mark.parametrize("arguments, expected", [
    (["--include", "a/"], ["a/1", "a/2"]),
    (["--include", "*.csv"], ["deep/z.csv", "z.csv"]),
    (["--exclude", "tmp/", "--exclude", "*.csv"], ["a/1", "a/2", "b/1"]),
    (["--include", "a/", "--include", "tmp/", "--exclude", "*/1"], ["a/2", "tmp/x"]),
])
@pytest.mark.parametrize("way", ["online", "offline", "volume"])
def test_keys_are_chosen_by_prefix_and_glob(fleet, legacy, way, arguments, expected):
    """From a server, from a drive and from a volume, and verify sees no more than was asked for."""
    volume = fleet.directory("volume")
    source = legacy if way == "online" else legacy.directory
    if way == "volume":
        whole = fleet.directory("whole")
        migrate("run", legacy, whole)
        command, environment = migrate_command("run", legacy, volume, "--bucket", "alpha", *arguments)
        command[command.index("--from") + 1] = f"volume:{whole}"
        assert subprocess.run(command, env=environment, capture_output=True, text=True).returncode == 0
    else:
        # The drive of a running server would be refused by the final pass.
        verb = "run" if way == "online" else "copy"
        migrate(verb, source, volume, "--bucket", "alpha", *arguments)
    assert names(volume, "alpha") == expected
    migrate("verify", source, volume, "--bucket", "alpha", *arguments)


def test_a_bucket_in_the_url_is_the_whole_store(fleet, minio):
    """Keys that may see one bucket only are enough, and the target's URL gives it another name."""
    source = boto(minio)
    fill(source, one=["k"] + [f"p/{i}" for i in range(3)], other=["x"])
    target = fleet.gateway()
    command, environment = migrate_command("run", minio, target, "--state-dir", str(fleet.directory("state")))
    command[command.index("--from") + 1] += "/one"
    command[command.index("--to") + 1] += "/renamed/"
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert contents(boto(target)) == {"renamed": ["k", "p/0", "p/1", "p/2"]}
    for url, told in [(f"{minio.endpoint}/one/p", "--include"), (f"{minio.endpoint}/nothing", "does not exist")]:
        refused = filestore("migrate", "plan", "--from", url, "--to", f"volume:{fleet.directory('v')}", **{k: v for k, v in environment.items() if k.startswith("FILESTORE_FROM")})
        assert refused.returncode == 2 and told in refused.stderr, refused.stderr


def test_two_buckets_of_one_server_but_not_one_bucket_onto_itself(fleet, minio):
    """minio/minio#1519."""
    client = boto(minio)
    fill(client, one=["a", "b"], two=["mine"])
    state = ["--state-dir", str(fleet.directory("state"))]
    migrate("copy", minio, minio, *state, "--bucket", "one=copy-of-one")
    assert keys(client, "copy-of-one") == ["a", "b"]
    assert snapshot(client, ["copy-of-one"])["copy-of-one"]["a"]["sha256"] == snapshot(client, ["one"])["one"]["a"]["sha256"]
    before = contents(client)
    for number, arguments in enumerate([["--bucket", "one"], [], ["--bucket", "one=two", "--bucket", "two=one"], ["--bucket", "one=two", "--bucket", "two=three"]]):
        done = migrate("copy", minio, minio, "--state-dir", str(fleet.directory(f"state-{number}")), *arguments, code=5)
        assert "same store" in done.stderr, done.stderr
    assert contents(client) == before, "no probe is left behind, nothing was written"


def test_a_missing_target_bucket_is_made_or_asked_for(fleet, minio):
    """minio/mc#1629."""
    fill(boto(minio), one=["a"], two=["b"])
    target = fleet.gateway()
    client = boto(target)
    client.create_bucket(Bucket="one")
    state = ["--state-dir", str(fleet.directory("state"))]
    done = migrate("copy", minio, target, *state, "--no-create-bucket", code=5)
    assert "two" in done.stderr and "--no-create-bucket" in done.stderr, done.stderr
    assert contents(client) == {"one": []}
    migrate("copy", minio, target, *state)
    assert contents(client) == {"one": ["a"], "two": ["b"]}


def test_final_never_deletes_what_lies_outside(fleet, minio):
    source = boto(minio)
    fill(source, data=["a/1", "a/2", "b/1"], rest=["r"])
    target = fleet.gateway()
    client = boto(target)
    fill(client, data=["mine", "a/mine"], mine=["x"])
    scope = ["--bucket", "data", "--include", "a/"]
    state = ["--state-dir", str(fleet.directory("state"))]
    migrate("copy", minio, target, *state, *scope)
    refused = migrate("final", minio, target, *state, *scope, code=5)
    assert "1 objects are not on the source" in refused.stderr, refused.stderr
    done = migrate("final", minio, target, *state, *scope, "--delete-extraneous")
    assert "1 deleted" in done.stdout, done.stdout
    assert contents(client) == {"data": ["a/1", "a/2", "mine"], "mine": ["x"]}


def test_a_migration_keeps_its_scope_or_widens_it(fleet, minio):
    source = boto(minio)
    fill(source, data=["a/1", "b/1"], rest=["r"])
    volume = fleet.directory("volume")
    migrate("copy", minio, volume, "--include", "a/")
    # Another part is refused, and so is a narrower end.
    done = migrate("copy", minio, volume, "--include", "b/", code=5)
    assert "--include a/" in done.stderr and "--include b/" in done.stderr, done.stderr
    migrate("copy", minio, volume)
    done = migrate("final", minio, volume, "--include", "a/", code=5)
    assert "everything" in done.stderr, done.stderr
    # A part may still be copied ahead.
    source.put_object(Bucket="data", Key="a/2", Body=b"new")
    done = migrate("copy", minio, volume, "--include", "a/")
    assert "copied 1 new" in done.stdout, done.stdout
    migrate("run", minio, volume)
    assert "scope" not in marker(volume)
    assert contents(boto(fleet.gateway(volume))) == {"data": ["a/1", "a/2", "b/1"], "rest": ["r"]}


def test_after_cutover_the_recorded_scope_rules(fleet, minio):
    source = boto(minio)
    fill(source, data=["a/1", "b/1"])
    volume = fleet.directory("volume")
    migrate("run", minio, volume, "--include", "a/")
    source.put_object(Bucket="data", Key="a/2", Body=b"late")
    source.put_object(Bucket="data", Key="b/2", Body=b"late")
    migrate("run", minio, volume)
    assert contents(boto(fleet.gateway(volume))) == {"data": ["a/1", "a/2"]}
    assert marker(volume)["diverged"] is False


def test_renamed_buckets_are_merged_and_go_back_by_their_old_names(fleet, minio):
    """After the hand-over and on the way back the recorded scope rules; another one is refused."""
    source = boto(minio)
    fill(source, one=["a/1", "b/1"], two=["t"])
    volume = fleet.directory("volume")
    scope = ["--bucket", "one=first", "--include", "a/"]
    migrate("run", minio, volume, *scope)
    source.put_object(Bucket="one", Key="a/late", Body=b"late")
    source.put_object(Bucket="one", Key="b/late", Body=b"late")
    refused = migrate("merge", minio, volume, "--bucket", "two", code=2)
    assert "unexpected argument '--bucket'" in refused.stderr, refused.stderr
    assert "added 1" in migrate("merge", minio, volume).stdout
    gateway = fleet.gateway(volume)
    served = boto(gateway)
    assert contents(served) == {"first": ["a/1", "a/late"]}
    served.put_object(Bucket="first", Key="a/served", Body=b"served")
    served.put_object(Bucket="first", Key="c/served", Body=b"outside")
    served.delete_object(Bucket="first", Key="a/1")
    gateway.stop()
    back = migrate("reverse", f"volume:{volume}", minio)
    assert "added 1, replaced 0, deleted 1" in back.stdout and "first/c/served" in back.stdout, back.stdout
    assert contents(source) == {"one": ["a/late", "a/served", "b/1", "b/late"], "two": ["t"]}


def test_a_window_of_time_decides_by_the_source(fleet, minio):
    source = boto(minio)
    fill(source, data=["old", "gone", "kept"])
    between = time.time() + 1.5
    volume = fleet.directory("volume")
    migrate("run", minio, volume, "--no-cutover")
    while time.time() < between + 0.1:
        time.sleep(0.05)
    source.put_object(Bucket="data", Key="new", Body=b"new")
    instant = datetime.fromtimestamp(between, timezone.utc).isoformat()
    fresh = fleet.directory("fresh")
    migrate("run", minio, fresh, "--newer", instant)
    assert names(fresh) == ["new"]
    stale = fleet.directory("stale")
    migrate("copy", minio, stale, "--older", instant)
    assert names(stale) == ["gone", "kept", "old"]
    # What left the window is on the source all the same: not deleted, not compared.
    source.put_object(Bucket="data", Key="old", Body=b"rewritten")
    source.delete_object(Bucket="data", Key="gone")
    migrate("final", minio, stale, "--older", instant)
    assert names(stale) == ["kept", "old"]
    assert (stale / "s3/data/old").read_bytes() == b"data/old"
    refused = migrate("final", minio, stale, "--older", "7d", code=2)
    assert "7d" in refused.stderr and "at every start" in refused.stderr, refused.stderr


def test_a_narrow_scope_lists_little_else(fleet, minio):
    source = boto(minio)
    fill(source, data=["a/1", "a/2", "b"])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: source.put_object(Bucket="data", Key=f"big/{i:04}", Body=b"x"), range(1100)))
    for arguments, expected in [(["--include", "a/"], ["a/1", "a/2"]), (["--exclude", "big/"], ["a/1", "a/2", "b"])]:
        volume = fleet.directory("-".join(arguments).replace("/", ""))
        with CountingProxy(minio) as proxy:
            migrate("copy", proxy, volume, *arguments)
            # Each stretch begins where its keys are, and nobody reads on into what is left out.
            assert len(proxy.lists()) <= 2 and not any("continuation-token" in query for query in proxy.lists()), proxy.lists()
            assert not any(method == "GET" and "versions" in query for method, _, query in proxy.requests)
        assert names(volume) == expected
    minio.kill()  # an orderly end of a busy one takes seconds


def test_each_side_has_its_own_settings(fleet):
    """peak/s5cmd#177: endpoint, region, keys and style of addressing are the source's or the target's, never both's."""
    if os.geteuid() != 0:
        pytest.skip("a hosts file of one's own needs a mount namespace")
    minio = fleet.minio(MINIO_DOMAIN="s3.test", MINIO_REGION="eu-paris-1")
    minio.region = "eu-paris-1"
    fill(boto(minio), one=["a/b", "c d+e"])
    target = Gateway(fleet.directory("volume"))
    target.access, target.secret = "another", "another-secret-key"
    fleet.servers.append(target)
    target.start(fleet.root / "log")
    for name, text in [("access", target.access), ("secret", target.secret + "\n")]:
        (fleet.root / name).write_text(text)
    hosts = fleet.root / "hosts"
    hosts.write_text("127.0.0.1 localhost s3.test one.s3.test\n")
    # Only virtual hosts: a path-style request would not reach the bucket by this name.
    command = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts), binary(), "migrate", "run",
               "--from", f"http://s3.test:{minio.port}/one", "--from-addressing", "virtual",
               "--to", target.endpoint, "--to-access-key-file", str(fleet.root / "access"), "--to-secret-key-file", str(fleet.root / "secret"),
               "--to-region", "us-west-2", "--state-dir", str(fleet.directory("state"))]
    environment = clean_environment(FILESTORE_FROM_ACCESS_KEY=minio.access, FILESTORE_FROM_SECRET_KEY=minio.secret)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    target.region = "us-east-1"
    assert contents(boto(target)) == {"one": ["a/b", "c d+e"]}
    half = filestore("migrate", "plan", "--from", minio.endpoint, "--to", "volume:/nowhere", "--from-access-key", "x")
    assert half.returncode == 2 and "--from-secret-key" in half.stderr, half.stderr

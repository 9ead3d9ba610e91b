"""SIGKILL while what two stores changed is brought together (`merge`, `run --again`): no version of either side is lost, only whole objects are seen, and the next start goes on."""

import subprocess
import time
from pathlib import Path

import pytest

from harness.cli import marker, migrate, migrate_command
from harness.s3 import boto
from test_reconcile import bodies, lines, put, run_dir

SIZE = 20_000
ROUND = 20
"""Keys of each kind."""


def text(word: str, key: str) -> str:
    """A body that shows where it is torn."""
    return f"{word} {key} ".ljust(SIZE, word[0])


def word(body: str, key: str) -> str:
    """Whose body it is, whole."""
    found = body.split(" ", 1)[0]
    assert body == text(found, key), f"{key} is torn"
    return found


def killed_on_the_way(arguments: tuple, on_volume, goals: tuple[int, ...]) -> None:
    """Runs the command, kills it when so many objects have arrived, and again and again after a moment."""
    command, environment = migrate_command(*arguments)
    slow = [*command, "--parallel", "1", "--rate", "60"]
    for goal in goals:
        running = subprocess.Popen(slow, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        while on_volume() < goal:
            assert running.poll() is None, "it ended before it could be killed"
            time.sleep(0.005)
        running.kill()
        running.wait()
    assert on_volume() < 3 * ROUND, "killed in the middle"
    for pause in (0.02, 0.05, 0.1, 0.2):
        running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            running.wait(pause)
        except subprocess.TimeoutExpired:
            pass
        running.kill()
        running.wait()


def arrived(volume: Path) -> int:
    """Objects of the legacy store's clients that are on the volume."""
    return sum(path.read_bytes().startswith(b"legacy") for path in (volume / "s3/data").iterdir() if path.is_file())


class Parted:
    """A volume that was handed over, and what clients of both stores did since: ROUND keys of each kind."""

    # Kind: (what the legacy store's clients did, what the volume's did); None deletes.
    KINDS = {
        "same": ("old", "old"),
        "legacy": ("legacy", "old"),
        "client": ("old", "client"),
        "both": ("legacy", "client"),
        "legacy-deleted": (None, "old"),
        "client-deleted": ("old", None),
        "deleted-changed": (None, "client"),
        "changed-deleted": ("legacy", None),
    }

    def __init__(self, fleet):
        self.minio = fleet.minio()
        self.legacy = boto(self.minio)
        self.legacy.create_bucket(Bucket="data")
        self.keys = {f"{kind}-{number:02d}": kind for kind in self.KINDS for number in range(ROUND)}
        for key in self.keys:
            put(self.legacy, key, text("old", key))
        self.volume = fleet.directory("volume")
        migrate("run", self.minio, self.volume, "--id", "first")

    def write(self, client, side: int) -> None:
        for key, kind in self.keys.items():
            done = self.KINDS[kind][side]
            if done is None:
                client.delete_object(Bucket="data", Key=key)
            elif done != "old":
                put(client, key, text(done, key))
        who = ("legacy", "client")[side]
        for number in range(ROUND):
            key = f"new-of-{who}-{number:02d}"
            put(client, key, text(who, key))


@pytest.mark.minutes(1)
def test_a_merge_that_is_killed_goes_on(fleet):
    parted = Parted(fleet)
    gateway = fleet.gateway(parted.volume)
    parted.write(parted.legacy, 0)
    parted.write(boto(gateway), 1)
    gateway.stop()
    arguments = ("merge", parted.minio, parted.volume, "--prefer", "source", "--deletes")
    killed_on_the_way(arguments, lambda: arrived(parted.volume), (5, 17, 40))
    migrate(*arguments)

    # Where both sides did something the source's holds, as asked for; the rest is of whoever did something.
    wanted = {key: legacy if legacy != "old" else client for key, kind in parted.keys.items() for legacy, client in [parted.KINDS[kind]]}
    wanted |= {f"new-of-{who}-{number:02d}": who for who in ("legacy", "client") for number in range(ROUND)}
    gateway.start()
    found = {key: word(body, key) for key, body in bodies(boto(gateway)).items()}
    gateway.stop()
    assert found == {key: who for key, who in wanted.items() if who}

    # What a client wrote and the decision took is kept, whichever of the processes took it.
    state = parted.volume / ".filestore"
    saved = {line["key"]: line["saved"] for line in lines(run_dir(state) / "changes.jsonl") if line.get("saved")}
    lost = {key for key, kind in parted.keys.items() if kind in ("both", "deleted-changed")}
    assert lost <= set(saved), sorted(lost - set(saved))
    for key in lost:
        assert word((run_dir(state) / saved[key]).read_text(), key) == "client"

    # And it is over: nothing is left to decide.
    assert "added 0, replaced 0, deleted 0" in (told := migrate("merge", parted.minio, parted.volume)).stdout, told.stdout
    assert marker(parted.volume)["state"] == "cutover"


@pytest.mark.minutes(1)
def test_taking_over_again_that_is_killed_goes_on(fleet):
    parted = Parted(fleet)
    migrate("roll-back", f"volume:{parted.volume}", parted.minio, "--id", "first")
    assert marker(parted.volume)["state"] == "rolledBack"
    # Clients that missed the move back, through a server that knows nothing of it; no key that the others touch.
    missed = {key for key, kind in parted.keys.items() if kind == "client"}
    other = fleet.versitygw(parted.volume / "s3")
    for key in missed:
        put(boto(other), key, text("client", key))
    other.stop()
    parted.write(parted.legacy, 0)

    arguments = ("run", parted.minio, parted.volume, "--again", "--id", "second")
    killed_on_the_way(arguments, lambda: arrived(parted.volume), (5, 17, 40))
    migrate(*arguments)

    assert (marker(parted.volume)["state"], marker(parted.volume)["runId"]) == ("cutover", "second")
    wanted = {key: "client" if key in missed else parted.KINDS[kind][0] for key, kind in parted.keys.items()}
    wanted |= {f"new-of-legacy-{number:02d}": "legacy" for number in range(ROUND)}
    found = {key: word(body, key) for key, body in bodies(boto(fleet.gateway(parted.volume))).items()}
    assert found == {key: who for key, who in wanted.items() if who}

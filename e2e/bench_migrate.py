"""The migrator beside rclone, mc mirror and s5cmd, on the same source and in the same run. Run by `make bench-migrate`; docs/benchmarks.md says what is compared and why.

All of them take turns within a round; a figure is the median over the rounds. A peer that is missing or fails ends the run.
"""

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.cli import migrate_command
from harness.measure import Cost, measure
from harness.s3 import boto
from harness.servers import Gateway, Minio, Server, Versitygw, clean_environment
from harness.tools import S5cmd

BUCKET = "bench"
MIB = 1 << 20


@dataclass
class Workload:
    name: str
    title: str
    count: int
    size: int


@dataclass
class Way:
    """One way to get the objects over."""

    name: str
    run: Callable[[], Cost]
    arrived: Callable[[], int]
    """Objects on the other side afterwards."""


def program(name: str, variable: str | None = None) -> str:
    path = os.environ.get(variable) if variable else shutil.which(name)
    if not path or not os.access(path, os.X_OK):
        raise SystemExit(f"the peer {name} is missing; run this by `make bench-migrate`")
    return path


def files(root: Path) -> int:
    """Files below `root`, without what servers keep beside the objects."""
    hidden = (".sgwtmp", ".minio.sys")
    return sum(len(names) for where, _, names in os.walk(root) if not any(part in where for part in hidden))


# --- the source ---------------------------------------------------------------------------------


def fill(server: Minio, workload: Workload, scratch: Path) -> None:
    """Puts the objects there: random bytes, a content type and user metadata, 1000 to a prefix."""
    boto(server).create_bucket(Bucket=BUCKET)
    tree, rng = scratch / "tree", random.Random(1)
    for i in range(workload.count):
        path = tree / f"{i // 1000:03d}" / f"object-{i:06d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(workload.size))
    s5cmd = S5cmd(server, scratch)
    # One PUT each, as applications do it.
    command = ["s5cmd", "--endpoint-url", server.endpoint, "--log", "error", "--numworkers", "16", "cp", "--part-size", "64", "--content-type", "application/x-bench", "--metadata", "origin=bench", f"{tree}/", f"s3://{BUCKET}/"]
    subprocess.run(command, env=s5cmd.env, check=True, stdin=subprocess.DEVNULL)
    shutil.rmtree(tree)


# --- the ways -----------------------------------------------------------------------------------


class Ways:
    """The commands, each to a fresh target below `scratch`."""

    def __init__(self, scratch: Path, drive: Path):
        self.scratch, self.drive, self.turn = scratch, drive, 0
        self.minio: Minio | None = None

    def fresh(self, name: str) -> Path:
        self.turn += 1
        path = self.scratch / f"to-{self.turn}-{name}"
        path.mkdir()
        return path

    def log(self) -> Path:
        return self.scratch / f"log-{self.turn}"

    # Ours.

    def filestore(self, verb: str, *arguments: str, offline: bool = False) -> Way:
        name = f"filestore {verb} {'drive' if offline else 'MinIO'} → volume{' ' + ' '.join(arguments) if arguments else ''}"
        volume = None

        def run() -> Cost:
            nonlocal volume
            volume = self.fresh("volume")
            return self.migrate(verb, volume, *arguments, offline=offline)

        return Way(name, run, lambda: files(volume / "s3" / BUCKET))

    def migrate(self, verb: str, volume: Path, *arguments: str, offline: bool = False) -> Cost:
        command, env = migrate_command(verb, self.drive if offline else self.minio, volume, *arguments)
        return measure(command, env, self.log(), [] if offline else [self.minio])

    # Peers.

    def rclone_env(self, target: Server | None) -> dict[str, str]:
        remotes = {"SRC": (self.minio, "Minio")} | ({"DST": (target, "Other")} if target else {})
        env = {"RCLONE_CONFIG": str(self.scratch / "none.conf"), "HOME": str(self.scratch)}
        for remote, (server, provider) in remotes.items():
            settings = {"TYPE": "s3", "PROVIDER": provider, "ENDPOINT": server.endpoint, "ACCESS_KEY_ID": server.access, "SECRET_ACCESS_KEY": server.secret}
            env |= {f"RCLONE_CONFIG_{remote}_{k}": v for k, v in settings.items()}
        return clean_environment(**env)

    def rclone(self, target: Server | None, where: str, *arguments: str) -> Cost:
        command = [program("rclone"), "copy", "--transfers", "16", *arguments, f"src:{BUCKET}", where]
        return measure(command, self.rclone_env(target), self.log(), [self.minio, *([target] if target else [])])

    def mc_env(self, target: Server | None) -> dict[str, str]:
        hosts = {"MC_HOST_src": self.minio} | ({"MC_HOST_dst": target} if target else {})
        return clean_environment(MC_CONFIG_DIR=str(self.scratch / "mc"), HOME=str(self.scratch), **{name: f"http://{server.access}:{server.secret}@{server.host}" for name, server in hosts.items()})

    def mc(self, target: Server | None, where: str) -> Cost:
        command = [program("mc", "FILESTORE_BENCH_MC"), "mirror", "--quiet", f"src/{BUCKET}", where]
        return measure(command, self.mc_env(target), self.log(), [self.minio, *([target] if target else [])])

    def s5cmd(self, where: Path) -> Cost:
        tool = S5cmd(self.minio, self.scratch)
        command = [program("s5cmd"), "--endpoint-url", self.minio.endpoint, "--log", "error", "cp", f"s3://{BUCKET}/*", f"{where}/"]
        return measure(command, tool.env, self.log(), [self.minio])

    @staticmethod
    def server(kind: type[Server], volume: Path) -> Server:
        # versitygw flushes nothing; ours is told not to, so that peers do not wait for the disk.
        return kind(volume, "--durability", "relaxed") if kind is Gateway else kind(volume)

    def to_server(self, tool: str, kind: type[Server], copy: Callable[[Server, str], Cost], prefix: str) -> Way:
        """Through a server that keeps the objects as files, started afresh."""
        root = None

        def run() -> Cost:
            nonlocal root
            volume = self.fresh(kind.name)
            root = volume / "s3" if kind is Gateway else volume
            with self.server(kind, volume).start(self.scratch / "servers") as server:
                boto(server).create_bucket(Bucket=BUCKET)
                return copy(server, f"{prefix}{BUCKET}")

        return Way(f"{tool} MinIO → {kind.name}", run, lambda: files(root / BUCKET))

    def to_directory(self, tool: str, copy: Callable[[Path], Cost]) -> Way:
        directory = None

        def run() -> Cost:
            nonlocal directory
            directory = self.fresh("directory")
            return copy(directory)

        return Way(f"{tool} MinIO → directory", run, lambda: files(directory))

    def peers(self) -> list[Way]:
        rclone = lambda server, where: self.rclone(server, where, "--metadata")  # noqa: E731
        return [
            self.to_server("rclone", Gateway, rclone, "dst:"),
            self.to_server("rclone", Versitygw, rclone, "dst:"),
            self.to_directory("rclone", lambda path: self.rclone(None, str(path))),
            self.to_server("mc", Gateway, self.mc, "dst/"),
            self.to_server("mc", Versitygw, self.mc, "dst/"),
            self.to_directory("mc", lambda path: self.mc(None, str(path))),
            self.to_directory("s5cmd", self.s5cmd),
        ]


# --- scenarios ----------------------------------------------------------------------------------

Results = dict[str, list[Cost]]


class Scenario:
    """A filled MinIO and the targets, all in one directory that goes away at the end."""

    def __init__(self, workload: Workload, options, stack: ExitStack):
        self.workload, self.options = workload, options
        self.scratch = Path(tempfile.mkdtemp(prefix=f"bench-{workload.name}-", dir=options.dir))
        stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
        self.drive = self.scratch / "drive"
        self.drive.mkdir()
        self.ways = Ways(self.scratch, self.drive)
        self.results: Results = {}
        print(f"\n## {workload.title}\n", flush=True)
        with self.minio():
            fill(self.ways.minio, workload, self.scratch)

    @contextmanager
    def minio(self):
        with Minio(self.drive).start(self.scratch / "servers") as server:
            self.ways.minio = server
            yield
        self.ways.minio = None

    def take(self, way: Way, count: int | None = None) -> None:
        cost = way.run()
        expected, found = self.workload.count if count is None else count, way.arrived()
        if found != expected:
            raise SystemExit(f"{way.name}: {found} of {expected} objects arrived")
        self.results.setdefault(way.name, []).append(cost)

    def warm_up(self) -> None:
        """A copy that does not count: whoever comes first after the server started would pay for its caches and for memory that nobody has touched."""
        self.ways.peers()[-1].run()
        self.clear()

    def clear(self) -> None:
        for path in self.scratch.glob("to-*"):
            shutil.rmtree(path)


def copying(workload: Workload, options) -> Results:
    with ExitStack() as stack:
        scenario = Scenario(workload, options, stack)
        ways = scenario.ways
        for _ in range(options.rounds):
            with scenario.minio():
                scenario.warm_up()
                scenario.take(ways.filestore("copy", "--durability", "relaxed"))
                scenario.take(ways.filestore("copy"))
                for peer in ways.peers():
                    scenario.take(peer)
                scenario.take(ways.filestore("run"))
            scenario.take(ways.filestore("copy", "--durability", "relaxed", offline=True))
            scenario.take(ways.filestore("copy", offline=True))
            scenario.clear()
        return scenario.results


def floor(scenario: Scenario) -> Way:
    """`cp` and `md5sum` of every file of the drive, as many at a time as there are cores: what a copy that checks cannot do without."""
    target = None

    def run() -> Cost:
        nonlocal target
        target = scenario.ways.fresh("floor")
        # The folders first: two `cp` at a time fail over one that both want to make.
        script = f"cd {scenario.drive / BUCKET} && find . -type d -exec mkdir -p {target}/{{}} \\; && find . -type f -print0 | xargs -0 -n 4 -P {os.cpu_count()} sh -c 'cp --parents \"$@\" {target} && md5sum \"$@\" >/dev/null' sh"
        return measure(["/bin/sh", "-c", script], clean_environment(), scenario.ways.log())

    parts = scenario.workload.count * 2  # xl.meta and part.1 of each object
    return Way(f"floor: cp and md5sum of the drive, {os.cpu_count()} at a time", run, lambda: files(target) - parts + scenario.workload.count)


def large(workload: Workload, options) -> Results:
    with ExitStack() as stack:
        scenario = Scenario(workload, options, stack)
        ways = scenario.ways
        for _ in range(options.rounds):
            with scenario.minio():
                scenario.warm_up()
                scenario.take(ways.filestore("copy", "--durability", "relaxed"))
                for peer in (ways.peers()[0], ways.peers()[2], ways.peers()[3], ways.peers()[6]):
                    scenario.take(peer)
                    scenario.clear()
            scenario.take(ways.filestore("copy", "--durability", "relaxed", offline=True))
            scenario.take(floor(scenario))
            scenario.take(ways.filestore("copy", offline=True))
            scenario.clear()
        return scenario.results


def unchanged(workload: Workload, options) -> Results:
    """A second pass that finds nothing to do. All compare with what our first pass left: the same files, served or looked at."""
    with ExitStack() as stack:
        scenario = Scenario(workload, options, stack)
        ways, volume = scenario.ways, scenario.ways.fresh("volume")
        with scenario.minio():
            ways.migrate("copy", volume)

            def again(name: str, run: Callable[[], Cost]) -> None:
                scenario.take(Way(name, run, lambda: files(volume / "s3" / BUCKET)))

            for _ in range(options.rounds):
                again("filestore copy MinIO → volume", lambda: ways.migrate("copy", volume))
                with ways.server(Gateway, volume).start(scenario.scratch / "servers") as gateway:
                    again("rclone --checksum MinIO → filestore", lambda: ways.rclone(gateway, f"dst:{BUCKET}", "--checksum"))
                    again("rclone --checksum --fast-list MinIO → filestore", lambda: ways.rclone(gateway, f"dst:{BUCKET}", "--checksum", "--fast-list"))
                    again("mc MinIO → filestore", lambda: ways.mc(gateway, f"dst/{BUCKET}"))
                again("rclone --checksum MinIO → directory", lambda: ways.rclone(None, str(volume / "s3" / BUCKET), "--checksum"))
        for _ in range(options.rounds):
            again("filestore copy drive → volume", lambda: ways.migrate("copy", volume, offline=True))
        return scenario.results


# --- output -------------------------------------------------------------------------------------


def median(costs: list[Cost], value: Callable[[Cost], float]) -> float:
    return statistics.median(value(cost) for cost in costs)


def table(workload: Workload, results: Results) -> None:
    reference = next(costs for name, costs in results.items() if name.startswith("rclone"))
    wall = lambda costs: median(costs, lambda cost: cost.wall)  # noqa: E731
    print("| | seconds | objects/s | MiB/s | × rclone | CPU s | CPU s with servers | peak MiB |\n|---|---|---|---|---|---|---|---|")
    for name, costs in results.items():
        seconds = wall(costs)
        print(f"| {name} | {seconds:.2f} | {workload.count / seconds:.0f} | {workload.count * workload.size / MIB / seconds:.0f} | {wall(reference) / seconds:.2f} "
              f"| {median(costs, lambda c: c.cpu):.2f} | {median(costs, lambda c: c.total_cpu):.2f} | {median(costs, lambda c: c.rss):.0f} |")
    print(flush=True)


def bound(results: Results, alone: list[Cost]) -> float:
    """Seconds that no client can beat while it shares this machine with the source: the source's own CPU time, of the way that costs it least, and that of `alone`, on all cores."""
    source = min(median(costs, lambda cost: cost.total_cpu - cost.cpu) for way, costs in results.items() if "MinIO → volume" in way or "MinIO → directory" in way)
    return (source + (median(alone, lambda cost: cost.cpu) if alone else 0)) / os.cpu_count()


def bars(name: str, results: Results) -> list[tuple[str, float, float, float | None]]:
    """(what, measured ratio, wanted ratio, the ratio that could be had at most on this machine where that is known)."""
    wall = {way: median(costs, lambda cost: cost.wall) for way, costs in results.items()}
    of = lambda text: min(seconds for way, seconds in wall.items() if way.startswith(text))  # noqa: E731
    relaxed = "--durability relaxed"
    if name in ("small", "medium"):
        ours = wall[f"filestore copy MinIO → volume {relaxed}"]
        others = min(seconds for way, seconds in wall.items() if not way.startswith(("filestore", "rclone")))
        rclone = min(wall["rclone MinIO → filestore"], wall["rclone MinIO → versitygw"])
        # A copy from the drive writes the same files and has no network.
        least = bound(results, results[f"filestore copy drive → volume {relaxed}"])
        return [
            ("objects/s of rclone to a server that keeps as much", rclone / ours, 3, rclone / least),
            ("objects/s of the best of mc and s5cmd", others / ours, 1.5, others / least),
            ("offline, objects/s of online", ours / wall[f"filestore copy drive → volume {relaxed}"], 3, None),
            ("offline, objects/s of online, both durable", wall["filestore copy MinIO → volume"] / wall["filestore copy drive → volume"], 3, None),
        ]
    if name == "big":
        return [("of the floor's rate, offline", of("floor") / wall[f"filestore copy drive → volume {relaxed}"], 0.9, None)]
    rclone = of("rclone")
    return [
        ("rate of rclone's second pass with --checksum", rclone / wall["filestore copy MinIO → volume"], 5, rclone / bound(results, [])),
        ("offline, rate of rclone's second pass with --checksum", rclone / wall["filestore copy drive → volume"], 5, None),
    ]


def machine() -> str:
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
    version = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]  # noqa: E731
    digest = hashlib.sha256(Path(os.environ["FILESTORE_BIN"]).read_bytes()).hexdigest()[:12]
    return (f"{os.cpu_count()} cores ({model}), load before {os.getloadavg()[0]:.1f}; filestore {digest}, {version(program('rclone'), 'version')}, "
            f"{version(program('mc', 'FILESTORE_BENCH_MC'), '--version')}, s5cmd {version(program('s5cmd'), 'version')}")


@contextmanager
def loop_mount(directory: Path, gib: int):
    """A new ext4 with a journal in a file, so that the machine's own file system does not matter."""
    with tempfile.TemporaryDirectory(prefix="bench-ext4-", dir=directory) as scratch:
        image, mounted = Path(scratch) / "image", Path(scratch) / "mnt"
        mounted.mkdir()
        with image.open("wb") as file:
            file.truncate(gib << 30)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-i", "8192", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], check=True)
        try:
            yield mounted
        finally:
            subprocess.run(["umount", str(mounted)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scenarios", default="small,medium,big,unchanged")
    parser.add_argument("--small", type=int, default=20_000, metavar="N", help="objects of 4 KiB")
    parser.add_argument("--medium", type=int, default=2_000, metavar="N", help="objects of 64 KiB")
    parser.add_argument("--big", type=int, default=128, metavar="N", help="objects of 16 MiB")
    parser.add_argument("--unchanged", type=int, default=100_000, metavar="N", help="objects of 256 bytes that the second pass finds unchanged")
    parser.add_argument("--quick", action="store_true", help="one round of a tenth of everything: a look, no figures")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where everything is put")
    parser.add_argument("--ext4-gib", type=int, default=0, metavar="GIB", help="make an ext4 of this size in a file in --dir and measure on that (needs root)")
    parser.add_argument("--json", type=Path, help="write every single measurement there")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
        options.small, options.medium, options.big, options.unchanged = (max(8, n // 10) for n in (options.small, options.medium, options.big, options.unchanged))
    workloads = {
        "small": (Workload("small", f"{options.small} objects of 4 KiB", options.small, 4 << 10), copying),
        "medium": (Workload("medium", f"{options.medium} objects of 64 KiB", options.medium, 64 << 10), copying),
        "big": (Workload("big", f"{options.big} objects of 16 MiB", options.big, 16 * MIB), large),
        "unchanged": (Workload("unchanged", f"{options.unchanged} unchanged objects, second pass", options.unchanged, 256), unchanged),
    }
    wanted = options.scenarios.split(",")
    if unknown := [name for name in wanted if name not in workloads]:
        parser.error(f"no such scenario: {', '.join(unknown)}")
    print(machine(), flush=True)
    everything, verdicts = {}, []
    with ExitStack() as stack:
        if options.ext4_gib:
            options.dir = stack.enter_context(loop_mount(options.dir, options.ext4_gib))
        for name in wanted:
            workload, scenario = workloads[name]
            results = scenario(workload, options)
            table(workload, results)
            everything[name] = {way: [asdict(cost) for cost in costs] for way, costs in results.items()}
            verdicts += [(workload.title, *bar) for bar in bars(name, results)]
    print("| bar | measured | wanted | at most | |\n|---|---|---|---|---|")
    for title, what, measured, least, most in verdicts:
        print(f"| {title}: {what} | {measured:.2f} | {least} | {'' if most is None else f'{most:.2f}'} | {'ok' if measured >= least else 'MISSED'} |")
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1) + "\n")
    return int(options.check and any(measured < least for _, _, measured, least, _ in verdicts))


if __name__ == "__main__":
    sys.exit(main())

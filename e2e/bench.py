"""Requests per second through minio-py, what each costs the server in CPU time, and how much memory it held at most. Run by `make bench`.

The client is the slower side on a small machine: compare the CPU milliseconds per request, which do not depend on it.
"""

import argparse
import io
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.s3 import minio_client
from harness.servers import Gateway, Minio, Server, Versitygw

SERVERS = {"filestore": Gateway, "versitygw": Versitygw, "minio": Minio}
SIZES = {"4 KiB": 4 << 10, "1 MiB": 1 << 20}


def cpu_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(server: Server) -> float:
    """Most MiB that were resident."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(server: Server, count: int) -> list[tuple[str, float, float]]:
    """(operation, requests per second, CPU milliseconds per request), two clients at a time."""
    client = minio_client(server)
    client.make_bucket("bench")
    results = []

    def timed(name: str, operation, times: int):
        begun, cpu = time.monotonic(), cpu_seconds(server)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(operation, range(times)))
        results.append((name, times / (time.monotonic() - begun), (cpu_seconds(server) - cpu) * 1000 / times))

    def get(key: str):
        answer = client.get_object("bench", key)
        answer.read()
        answer.release_conn()

    for label, size in SIZES.items():
        body = os.urandom(size)
        times = max(20, count * (4 << 10) // size * 25) if size > 4 << 10 else count
        timed(f"put {label}", lambda i, b=body, s=size: client.put_object("bench", f"{s}/{i}", io.BytesIO(b), s), times)
        timed(f"get {label}", lambda i, s=size: get(f"{s}/{i}"), times)
    timed("stat", lambda i: client.stat_object("bench", f"{4 << 10}/{i}"), count)
    timed("list 1000", lambda _: list(client.list_objects("bench", recursive=True)), max(5, count // 100))
    timed("delete", lambda i: client.remove_object("bench", f"{4 << 10}/{i}"), count)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="small requests of each kind")
    parser.add_argument("--servers", default=",".join(SERVERS))
    options = parser.parse_args()
    table: dict[str, dict[str, tuple[float, float]]] = {}
    peaks: dict[str, float] = {}
    names = options.servers.split(",")
    for name in names:
        with tempfile.TemporaryDirectory(prefix="filestore-bench-") as directory:
            root = Path(directory)
            (root / "data").mkdir()
            with SERVERS[name](root / "data").start(root / "log") as server:
                for operation, rate, cost in measure(server, options.count):
                    table.setdefault(operation, {})[name] = (rate, cost)
                peaks[name] = peak(server)
    print(f"{'':12}" + "".join(f"{name:>26}" for name in names))
    print(f"{'':12}" + f"{'per second':>14}{'CPU ms':>12}" * len(names))
    for operation, row in table.items():
        print(f"{operation:12}" + "".join(f"{row[name][0]:14.0f}{row[name][1]:12.3f}" for name in names))
    print(f"{'peak MiB':12}" + "".join(f"{peaks[name]:26.0f}" for name in names))


if __name__ == "__main__":
    main()

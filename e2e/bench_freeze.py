"""How long clients have no store while a MinIO in the cluster is replaced. Run by `make bench-freeze`; docs/benchmarks.md says what is measured.

The hardest case for a freeze: all that changed did so after the pod of the final pass had brought its target up to
date. For that the operator is stopped while clients change objects, and goes on then.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from harness.cluster import REPO, Namespace, Operator, filestore, kubectl, until
from harness.legacy import SECRET, Legacy
from harness.s3 import md5

BUCKET = "bench"


class Objects:
    """What clients wrote: key -> ETag."""

    def __init__(self, legacy: Legacy, count: int, size: int):
        self.legacy, self.size, self.rng, self.etags = legacy, size, random.Random(1), {}
        self.local = threading.local()
        legacy.client().create_bucket(Bucket=BUCKET)
        self.put(self.key(number) for number in range(count))

    @staticmethod
    def key(number: int) -> str:
        return f"{number // 1000:03d}/object-{number:06d}.bin"

    def client(self):
        if not hasattr(self.local, "client"):
            self.local.client = self.legacy.client()
        return self.local.client

    def put(self, keys):
        bodies = {key: self.rng.randbytes(self.size) for key in keys}

        def one(key: str):
            self.client().put_object(Bucket=BUCKET, Key=key, Body=bodies[key], ContentType="application/x-bench", Metadata={"origin": "bench"})

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, bodies))
        self.etags |= {key: md5(body) for key, body in bodies.items()}

    def change(self, count: int):
        """Eight of ten are written over, one is new, one goes."""
        keys = self.rng.sample(sorted(self.etags), count)
        gone, new = count // 10, count // 10
        for key in keys[:gone]:
            self.client().delete_object(Bucket=BUCKET, Key=key)
            del self.etags[key]
        self.put([*keys[gone:count - new], *(self.key(len(self.etags) + 1000 + number) for number in range(new))])

    def check(self):
        """Whoever serves has just that."""
        pages = self.legacy.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        found = {one["Key"]: one["ETag"].strip('"') for page in pages for one in page.get("Contents", []) if not one["Key"].startswith(Probers.PREFIX)}
        if found != self.etags:
            odd = [key for key in found.keys() | self.etags.keys() if found.get(key) != self.etags.get(key)]
            raise SystemExit(f"{len(odd)} objects are not as clients left them: {sorted(odd)[:5]}")


class Probers:
    """Clients that write an object of their own again and again through the old Service. Several, as one may wait for an answer that never comes."""

    PREFIX = "probe/"

    def __init__(self, legacy: Legacy, count: int = 4):
        self.ends, self.failures, self.stopping = [], [], threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(legacy, number)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, legacy: Legacy, number: int):
        client = legacy.client(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=1)
        while not self.stopping.wait(0.02):
            begun = time.time()
            try:
                client.put_object(Bucket=BUCKET, Key=f"{self.PREFIX}{number}", Body=b"here")
                self.ends.append(time.time())
            except (BotoCoreError, ClientError) as error:
                self.failures.append((begun, time.time(), type(error).__name__))

    def longest(self) -> tuple[float, float]:
        """The longest time without an acknowledged write, up to one that is still to come: when it began (seconds since 1970), and seconds."""
        now = time.time()
        until("clients are served again", lambda: self.ends[-1] > now, 60)
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        ends = sorted(self.ends)
        gap, began = max((after - before, before) for before, after in zip(ends, ends[1:], strict=False))
        return began, gap


def round_trip(options, scratch: Path) -> dict:
    namespace = Namespace()
    operator = Operator(namespace, scratch)
    try:
        legacy = Legacy(namespace)
        objects = Objects(legacy, options.objects, options.size)
        operator.start()
        migration = {"id": "first", "cutover": "manual", "verify": options.verify}
        wanted = filestore(credentials={"secretRef": {"name": SECRET}}, migration=migration)
        namespace.apply(wanted)
        found = namespace.wait("Migrated=False/AwaitingApproval", seconds=900)
        wanted["spec"]["migration"]["approve"] = found["status"]["migration"]["plan"]["hash"]
        namespace.apply(wanted)
        namespace.until("the final pass is prepared", lambda: "files-final-1" in namespace("get", "jobs", "-o", "name"), 60)
        operator.stop()
        namespace("wait", "pod", "-l", "job-name=files-final-1", "--for=condition=Ready", "--timeout=120s")
        objects.change(options.objects * options.changed // 100)

        probers = Probers(legacy)
        operator.start()
        namespace.wait("Migrated=True/Completed", seconds=300)
        found = namespace.wait("Ready=True/Serving")
        began, gap = probers.longest()
        if options.timeline:
            print("\n".join(timeline(namespace, probers, began, gap)), file=sys.stderr)
        objects.check()
        pod = namespace.items("pods", "-l", "job-name=files-final-1")[0]
        told = json.loads(pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"])
        return {"clients": round(gap, 2), "status": found["status"]["migration"]["freeze"], "final": told["parts"], "copied": told["outcomes"]["copied"], "deleted": told["outcomes"]["deleted"]}
    except AssertionError:
        for title, text in [*namespace.report(), *operator.report()]:
            print(f"--- {title}\n{text}", file=sys.stderr)
        raise
    finally:
        operator.kill()
        namespace.delete()


def timeline(namespace: Namespace, probers: Probers, began: float, gap: float) -> list[str]:
    """What clients and the cluster tell of the freeze (the cluster mostly in whole seconds)."""
    def at(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    told = [(at(began), "clients", "last write before"), (at(began + gap), "clients", "first write after")]
    told += [(at(start), "a client", f"{what} after {end - start:.2f} s") for start, end, what in probers.failures if end - start > 0.5]
    for pod in namespace.items("pods"):
        name, status = pod["metadata"]["name"], pod["status"]
        told.append((pod["metadata"]["creationTimestamp"], name, "created"))
        told += [(one["lastTransitionTime"], name, f"{one['type']} {one['status']}") for one in status["conditions"]]
        for one in status.get("containerStatuses", []):
            for state, about in one["state"].items():
                told += [(about[when], name, f"{state}.{when}") for when in ("startedAt", "finishedAt") if when in about]
    told += [(one.get("eventTime") or one["metadata"]["creationTimestamp"], one["regarding"]["name"], one["reason"]) for one in namespace.items("events.events.k8s.io")]
    return [" ".join(line) for line in sorted(told)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--changed", type=int, default=1, help="percent of the objects, changed when the final pass already waits")
    parser.add_argument("--size", type=int, default=4096, help="bytes of an object")
    parser.add_argument("--timeline", action="store_true", help="also print when what happened, for each round")
    parser.add_argument("--verify", default="listing", choices=("listing", "etag", "bytes"))
    options = parser.parse_args()
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(REPO / "crds/filestores.yaml"))
    kubectl("wait", "--for=condition=Established", "crd/filestores.filestore.ryax.tech", "--timeout=30s")
    print(f"{options.objects} objects of {options.size} bytes, {options.changed} % changed once the final pass waits; seconds\n")
    print("| clients without a store | total | stop | final | start | of final: pass | verify | marker | copied, deleted |\n|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            scratch = Path(folder, str(number))
            scratch.mkdir()
            told = round_trip(options, scratch)
            status, final = told["status"], told["final"]
            row = [told["clients"], *(status[f"{part}Seconds"] for part in ("total", "stop", "final", "start")), *(round(final[f"{part}Seconds"], 2) for part in ("final", "verify", "marker")),
                   f"{told['copied']}, {told['deleted']}"]
            print("| " + " | ".join(str(value) for value in row) + " |", flush=True)


if __name__ == "__main__":
    main()

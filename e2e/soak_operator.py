"""The operator over a long time on a real cluster: many Filestores at rest, and killed after each of its writes. `make soak-operator`; not a test of `make test`.

usage: soak_operator.py [--stores 50] [--idle 600] [--secrets 2000] [--suspended] [--only rest|kills]
Ends with exit code 1 when something is written at rest, or a killed operator leaves another result. Prints what it measured.
"""

import argparse
import base64
import json
import sys
import tempfile
import time
from pathlib import Path

from harness import fields
from harness.apiserver import ApiServer
from harness.cluster import REPO, Namespace, Operator, filestore, kubectl, secret, until

EVERYTHING = {"buckets": [{"name": "uploads"}], "site": {"name": "main"}, "networkPolicy": {"enabled": True}, "monitoring": {"dashboard": {"enabled": True}}}
KINDS = ("deployment", "service", "serviceaccount", "configmap", "networkpolicy", "pvc")


def memory(operator: Operator) -> dict[str, float]:
    """MiB: all that is resident, of that anonymous, of that mapped from the program."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{operator.process.pid}/status").read_text().splitlines())
    return {name: int(lines[field].split()[0]) / 1024 for name, field in (("resident", "VmRSS"), ("anonymous", "RssAnon"), ("program", "RssFile"))}


def told(what: str, operator: Operator):
    print(f"{what}: " + ", ".join(f"{name} {mib:.1f} MiB" for name, mib in memory(operator).items()), flush=True)


def settled(namespace: Namespace, server: ApiServer, seconds: float = 5):
    """Waits until nothing was written for a while."""
    def quiet() -> bool:
        before = len(server.changes())
        time.sleep(seconds)
        return len(server.changes()) == before
    until("nothing is written for a while", quiet, 300)


def add_foreign_secrets(namespace: Namespace, count: int):
    """Secrets of 100 KB that no Filestore names."""
    value = base64.b64encode(b"x" * 100_000).decode()
    for start in range(0, count, 20):
        items = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"foreign-{number}"}, "data": {"value": value}} for number in range(start, min(start + 20, count))]
        namespace("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def at_rest(stores: int, idle: float, suspended: bool, secrets: int) -> bool:
    namespace = Namespace()
    with tempfile.TemporaryDirectory() as scratch:
        operator = Operator(namespace, Path(scratch))
        server = ApiServer(operator)
        operator.start()
        try:
            until("the operator acts", lambda: any("/leases" in path for _, path in server.writes))
            settled(namespace, server)
            told("no Filestore", operator)
            add_foreign_secrets(namespace, secrets)
            # Once more, so that the operator lists them as well as sees them come.
            operator.stop()
            before = len(server.writes)
            operator.start()
            until("the operator acts again", lambda: len(server.writes) > before)
            settled(namespace, server)
            told(f"no Filestore, {secrets} Secrets of others", operator)
            namespace.apply(secret())
            condition = "Ready=False/Suspended" if suspended else "Ready=True/Serving"
            begun = time.monotonic()
            for number in range(stores):
                namespace.apply(filestore(f"s{number}", **EVERYTHING, suspend=suspended))
                if number == 0:
                    namespace.wait(condition, "s0", seconds=300)
                    settled(namespace, server)
                    told("1 Filestore", operator)
                    begun = time.monotonic()
            for number in range(stores):
                namespace.wait(condition, f"s{number}", seconds=1800)
            print(f"all of them are as they should be {time.monotonic() - begun:.0f} s after the second was applied", flush=True)
            if not suspended:
                for number in range(stores):
                    until("used space is told", lambda name=f"s{number}": namespace.get("filestore", name)["status"]["storage"].get("usedPercent") is not None, 900)
            settled(namespace, server)
            told(f"{stores} Filestores", operator)
            before, leases, most = len(server.changes()), len(server.writes), 0.0
            rounds = operator.metric("filestore_operator_rounds_total")
            end = time.monotonic() + idle
            while time.monotonic() < end:
                time.sleep(min(5.0, idle))
                most = max(most, memory(operator)["resident"])
            written = server.changes()[before:]
            print(f"at rest for {idle:.0f} s: {len(written)} writes, {len(server.writes) - leases - len(written)} renewals of the lease, "
                  f"{operator.metric('filestore_operator_rounds_total') - rounds:.0f} rounds, at most {most:.1f} MiB resident", flush=True)
            for method, path in written:
                print(f"  {method} {path}")
            return not written
        finally:
            operator.kill()
            server.stop()
            namespace.delete()


def meant(namespace: Namespace, name: str) -> dict:
    """All that the operator set in the objects of a Filestore, whatever their name; and how it stands."""
    made = {}
    for kind in KINDS:
        listed = json.loads(namespace("get", kind, "-o", "json", "--show-managed-fields", "-l", f"filestore.ryax.tech/name={name}"))
        for found in listed["items"]:
            set_by_us = {fields.named(path): fields.value_at(found, path) for path in fields.owned(found, "filestore-operator")
                         if "ownerReferences" not in path and path[-1] != "filestore.ryax.tech/applied"}
            made[f"{kind}/{found['metadata']['name']}"] = set_by_us
    status = namespace.get("filestore", name)["status"]
    made["conditions"] = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    return json.loads(json.dumps(made).replace(name, "NAME"))


def killed() -> bool:
    """A Filestore is made and suspended again, with the operator killed after its first write, after its second, and so on."""
    namespace, good = Namespace(), True
    namespace.apply(secret())
    with tempfile.TemporaryDirectory() as scratch:
        operator = Operator(namespace, Path(scratch))
        at, seen = 0, 0

        def after_write(path: str) -> bool:
            nonlocal seen
            if "/leases" in path:
                return False
            seen += 1
            if seen != at:
                return False
            operator.kill()
            return True

        def start():
            # The lease of a killed process would be waited for; another test does that.
            namespace("delete", "lease", "--all")
            operator.start()

        server = ApiServer(operator, after_write)
        try:
            wanted, writes = None, 1
            while at <= writes:
                seen, name = 0, f"kill{at:02}"
                start()
                namespace.apply(filestore(name, **EVERYTHING))
                for spec, condition in (({}, "Ready=True/Serving"), ({"suspend": True}, "Ready=False/Suspended")):
                    if spec:
                        namespace("patch", "filestore", name, "--type=merge", "-p", json.dumps({"spec": spec}))
                    deadline = time.monotonic() + 180
                    while True:
                        if operator.process.poll() is not None:
                            start()
                        found = namespace.get("filestore", name)
                        kind, _, rest = condition.partition("=")
                        if any((one["type"], f"{one['status']}/{one['reason']}", one["observedGeneration"]) == (kind, rest, found["metadata"]["generation"])
                               for one in found.get("status", {}).get("conditions", [])):
                            break
                        assert time.monotonic() < deadline, f"killed after write {at}: {found.get('status')}"
                        time.sleep(0.2)
                settled(namespace, server, 3)
                end = meant(namespace, name)
                if at == 0:
                    wanted, writes = end, seen
                    print(f"not killed: {writes} writes", flush=True)
                elif end != wanted:
                    good = False
                    print(f"killed after write {at}: another end\n{json.dumps(end, indent=1)}\ninstead of\n{json.dumps(wanted, indent=1)}", flush=True)
                operator.kill()
                namespace("delete", "filestore", name)
                at += 1
            print(f"killed after each of {writes} writes: {'the same end each time' if good else 'NOT the same end'}", flush=True)
            return good
        finally:
            operator.kill()
            server.stop()
            namespace.delete()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", type=int, default=50, help="Filestores at rest [50]")
    parser.add_argument("--idle", type=float, default=600, help="seconds at rest [600]")
    parser.add_argument("--secrets", type=int, default=2000, help="Secrets of 100 KB that are none of its business [2000]")
    parser.add_argument("--suspended", action="store_true", help="without their pods, where the node has no room for so many")
    parser.add_argument("--only", choices=["rest", "kills"], help="one of the two parts")
    options = parser.parse_args()
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(REPO / "crds/filestores.yaml"))
    good = options.only == "kills" or at_rest(options.stores, options.idle, options.suspended, options.secrets)
    return 0 if (options.only == "rest" or killed()) and good else 1


if __name__ == "__main__":
    sys.exit(main())

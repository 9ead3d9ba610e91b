"""versitygw's own integration tests, run against any server, and what they say of each case."""

import re
import subprocess
from collections import Counter
from pathlib import Path

from harness.servers import Server, clean_environment, versitygw_binary

# `PASS name`, `FAIL name: what`, each word in colour. The codes are what makes the lines recognisable: messages of a
# case hold line feeds, and one message of the suite ends without any.
_LINE = re.compile(r"\x1b\[\d+m(RUN  |PASS |FAIL |SKIP )\x1b\[0m([A-Za-z0-9_]+)(?::[ ]?([^\x1b]*))?")


def run(server: Server, directory: Path, *arguments: str, timeout: int = 900) -> tuple[dict[str, str], str]:
    """Runs `versitygw test ARGUMENTS`; returns case -> "" (passed) or what failed, and the whole output.

    A case that started and then neither passed, failed nor was skipped failed as well: its bucket could not be removed.
    """
    command = [versitygw_binary(), "test", "-a", server.access, "-s", server.secret, "-e", server.endpoint, *arguments]
    # In an empty directory: some cases run ./versitygw to talk to an admin API that only versitygw has.
    done = subprocess.run(command, cwd=directory, env=clean_environment(), capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
    output = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    return parse(output), output


def parse(output: str) -> dict[str, str]:
    started, ended, failed = Counter(), Counter(), {}
    for kind, name, message in _LINE.findall(output):
        if kind == "RUN  ":
            started[name] += 1
        else:
            ended[name] += 1
            if kind == "FAIL ":
                failed[name] = (message or "failed").strip()
    results = {}
    for name in started:
        if name in failed:
            results[name] = failed[name]
        elif ended[name] < started[name]:
            results[name] = "did not end: its bucket could not be removed"
        else:
            results[name] = ""
    return results


def expected_failures(path: Path) -> dict[str, str]:
    """`CaseName<TAB>reason` per line; blank lines and lines with # are for people."""
    listed = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.partition("\t")
        assert reason.strip(), f"{path.name}:{number}: {name} has no reason"
        assert name not in listed, f"{path.name}:{number}: {name} is listed twice"
        listed[name] = reason.strip()
    return listed

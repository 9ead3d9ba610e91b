"""What a command costs: wall time, CPU time, peak memory, and the CPU time that servers spent meanwhile."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.servers import Server

# A process begins with the peak of whoever started it, so a small one starts what is measured.
_LAUNCHER = """
import json, os, sys, time
with open(sys.argv[1], "wb") as log:
    begun = time.monotonic()
    pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, log.fileno(), 1), (os.POSIX_SPAWN_DUP2, log.fileno(), 2)])
    _, status, used = os.wait4(pid, 0)
    wall = time.monotonic() - begun
print(json.dumps([os.waitstatus_to_exitcode(status), wall, used.ru_utime, used.ru_stime, used.ru_maxrss]))
"""


@dataclass
class Cost:
    wall: float
    """Seconds."""
    cpu: float
    """Seconds of the command, user and system."""
    rss: float
    """Peak in MiB."""
    servers: dict[str, float] = field(default_factory=dict)
    """CPU seconds of each server."""

    @property
    def total_cpu(self) -> float:
        return self.cpu + sum(self.servers.values())


def cpu_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(command: list[str], env: dict[str, str], log: Path, servers: list[Server] = (), codes: tuple[int, ...] = (0,)) -> Cost:
    """Runs `command` (an absolute path first) to its end. What was written before is on the disk when it starts."""
    os.sync()
    before = [cpu_seconds(server) for server in servers]
    launched = subprocess.run([sys.executable, "-S", "-E", "-c", _LAUNCHER, str(log), *command], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if launched.returncode != 0:
        raise RuntimeError(f"{command[0]} could not be run: {launched.stderr[-500:]}")
    code, wall, user, system, rss = json.loads(launched.stdout)
    # What a server still has to do for the command's last request is the command's.
    time.sleep(0.05)
    spent = {server.name: cpu_seconds(server) - begun for server, begun in zip(servers, before, strict=True)}
    if code not in codes:
        raise RuntimeError(f"{' '.join(command)}: exit {code}\n{log.read_text(errors='replace')[-3000:]}")
    return Cost(wall, user + system, rss / 1024, spent)

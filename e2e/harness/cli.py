"""The `filestore` command line."""

import json
import subprocess
from pathlib import Path

from harness.servers import binary, clean_environment


def source_of(where) -> tuple[str, dict[str, str]]:
    """`--from` and the environment that goes with it, for a server, the drive of a stopped one, or `volume:PATH`."""
    if hasattr(where, "endpoint"):
        return where.endpoint, {"FILESTORE_FROM_ACCESS_KEY": where.access, "FILESTORE_FROM_SECRET_KEY": where.secret}
    return str(where) if str(where).startswith("volume:") else f"minio-drive:{where}", {}


def target_of(where) -> tuple[str, dict[str, str]]:
    if hasattr(where, "endpoint"):
        return where.endpoint, {"FILESTORE_TO_ACCESS_KEY": where.access, "FILESTORE_TO_SECRET_KEY": where.secret}
    return f"volume:{where}", {}


def migrate_command(verb: str, source, target, *arguments: str) -> tuple[list[str], dict[str, str]]:
    origin, environment = source_of(source)
    goal, more = target_of(target)
    return [binary(), "migrate", verb, "--from", origin, "--to", goal, *arguments], clean_environment(**environment, **more)


def migrate(verb: str, source, target, *arguments: str, code: int | None = 0, timeout: int = 300) -> subprocess.CompletedProcess:
    """Runs `filestore migrate VERB` to its end; `code` is the exit code it must have."""
    command, environment = migrate_command(verb, source, target, *arguments)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    if code is not None:
        assert done.returncode == code, f"{' '.join(command)}: exit {done.returncode}, not {code}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def filestore(*arguments: str, timeout: int = 60, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), *arguments], env=clean_environment(**environment), capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)


def marker(volume: Path) -> dict:
    return json.loads((volume / ".filestore/migration.json").read_text())

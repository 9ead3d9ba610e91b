"""Command-line clients, configured by environment alone so that nothing of the machine's own settings is read."""

import subprocess
from pathlib import Path

from harness.servers import Server, clean_environment


def run(command: list[str], env: dict[str, str], cwd: Path | None = None, timeout: int = 300, check: bool = True) -> subprocess.CompletedProcess:
    done = subprocess.run(command, env=env, cwd=cwd, timeout=timeout, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if check:
        assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done


class Aws:
    def __init__(self, server: Server, home: Path):
        self.server = server
        self.env = clean_environment(HOME=str(home), AWS_ACCESS_KEY_ID=server.access, AWS_SECRET_ACCESS_KEY=server.secret, AWS_DEFAULT_REGION=server.region,
                                     AWS_CONFIG_FILE=str(home / "config"), AWS_PAGER="")
        (home / "config").write_text("[default]\ns3 =\n    addressing_style = path\n")

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        return run(["aws", "--endpoint-url", self.server.endpoint, *arguments], self.env, check=check)


class Rclone:
    """Remotes: `s3:` is the server."""

    def __init__(self, server: Server, home: Path, provider: str = "Minio"):
        remote = {"TYPE": "s3", "PROVIDER": provider, "ENDPOINT": server.endpoint, "ACCESS_KEY_ID": server.access, "SECRET_ACCESS_KEY": server.secret, "CHUNK_SIZE": "5Mi", "UPLOAD_CUTOFF": "5Mi"}
        self.env = clean_environment(HOME=str(home), RCLONE_CONFIG=str(home / "none.conf"), **{f"RCLONE_CONFIG_S3_{k}": v for k, v in remote.items()})

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        return run(["rclone", *arguments], self.env, check=check)


class S5cmd:
    def __init__(self, server: Server, home: Path):
        self.server = server
        self.env = clean_environment(HOME=str(home), AWS_ACCESS_KEY_ID=server.access, AWS_SECRET_ACCESS_KEY=server.secret, AWS_REGION=server.region)

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        return run(["s5cmd", "--endpoint-url", self.server.endpoint, *arguments], self.env, check=check)


def tree(root: Path) -> dict[str, bytes]:
    """Relative path -> content of every file."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}

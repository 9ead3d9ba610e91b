"""What the image promises, of the binary that goes into it: static, no privileges, nothing written outside of the volume.

There is no container engine where the tests run, so the image's file system is made by hand: the binary alone, read-only.
"""

import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

from harness.s3 import boto
from harness.servers import Gateway, binary

DOCKERFILE = Path(__file__).parent.parent / "Dockerfile"
USER = 1200


def program_headers(path: Path) -> list[int]:
    """Types of the program headers of a 64-bit little-endian ELF file."""
    data = path.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01"
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    return [struct.unpack_from("<I", data, offset + i * size)[0] for i in range(count)]


PT_INTERP = 3


def test_the_binary_is_static():
    assert PT_INTERP not in program_headers(Path(binary())), "it asks for a dynamic loader: build it for musl"


def test_the_dockerfile_says_what_is_tested_here():
    final = DOCKERFILE.read_text().split("FROM scratch", 1)[1]
    assert f"USER {USER}:{USER}" in final
    assert not re.search(r"^(RUN|SHELL)", final, re.MULTILINE)
    assert 'ENTRYPOINT ["/filestore"]' in final


class InImage(Gateway):
    """The gateway in a root of its own, as the image's user."""

    def __init__(self, root: Path):
        super().__init__(root / "data")
        self.root = root

    def command(self):
        return ["chroot", f"--userspec={USER}:{USER}", str(self.root), "/filestore", "gateway", "/data", "--listen", self.host, "--admin-listen", f"127.0.0.1:{self.admin_port}"]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a root file system")
def test_runs_as_its_user_on_a_read_only_root(fleet):
    root = fleet.directory("root")
    mounts = []

    def mount(*arguments: str):
        subprocess.run(["mount", *arguments], check=True)

    try:
        mount("-t", "tmpfs", "tmpfs", str(root))
        mounts.append(root)
        (root / "filestore").write_bytes(Path(binary()).read_bytes())
        (root / "filestore").chmod(0o755)
        (root / "data").mkdir()
        mount("-o", "remount,ro", str(root))
        mount("-t", "tmpfs", "-o", f"uid={USER},gid={USER},mode=0700", "tmpfs", str(root / "data"))
        mounts.append(root / "data")
        gateway = InImage(root)
        fleet.servers.append(gateway)
        gateway.start(fleet.root / "log")
        client = boto(gateway)
        client.create_bucket(Bucket="data")
        client.put_object(Bucket="data", Key="a/b", Body=b"x" * 70_000, Metadata={"k": "v"})
        assert client.get_object(Bucket="data", Key="a/b")["Metadata"] == {"k": "v"}
        assert (root / "data/s3/data/a/b").stat().st_uid == USER
        assert gateway.stop() == 0
    finally:
        for path in reversed(mounts):
            subprocess.run(["umount", "--lazy", str(path)], check=False)

"""How much memory `filestore` holds: a take-over runs in a pod of 256 MiB, beside the store that it replaces."""

import os
from pathlib import Path

from harness.cli import migrate_command
from harness.measure import measure
from harness.s3 import boto
from harness.servers import Minio

MIB = 1 << 20
POD = 256
"""MiB that a small pod has; the kernel needs some of it for what it sends and writes."""


def status(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/status").read_text().split(f"{name}:")[1].split()[0]


def fill(minio: Minio, count: int, size: int) -> None:
    client = boto(minio)
    client.create_bucket(Bucket="data")
    body = os.urandom(size)
    for number in range(count):
        client.put_object(Bucket="data", Key=f"object-{number}", Body=body)


def test_no_huge_pages_are_used(fleet):
    """proc(5): THP_enabled is 0 when the process may not have any."""
    gateway = fleet.gateway()
    assert status(gateway.process.pid, "THP_enabled") == "0"


def test_small_objects_take_tens_of_mib(fleet, tmp_path):
    minio = fleet.minio()
    fill(minio, 500, 4096)
    command, environment = migrate_command("copy", minio, fleet.directory("volume"))
    assert measure(command, environment, tmp_path / "copy.log").rss < 64


def test_large_objects_fit_the_pod(fleet, tmp_path):
    """More of them than are at work at a time, from the running store and from its drive."""
    minio = fleet.minio()
    fill(minio, 24, 16 * MIB)
    command, environment = migrate_command("copy", minio, fleet.directory("online"))
    assert measure(command, environment, tmp_path / "online.log").rss < POD / 2
    minio.stop()
    command, environment = migrate_command("run", minio.directory, fleet.directory("offline"))
    assert measure(command, environment, tmp_path / "offline.log").rss < POD / 2

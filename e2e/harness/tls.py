"""Certificates for tests, made by openssl."""

import subprocess
from pathlib import Path

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """A certificate authority that nobody knows; `ca` is its certificate (PEM), for clients to trust."""

    def __init__(self, directory: Path, name: str = "Test authority"):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.ca = self.directory / "ca.pem"
        self._openssl("req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", f"/CN={name}", "-days", "2",
                      "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        self._issued = 0

    def issue(self, *names: str, days: int = 2) -> tuple[bytes, bytes]:
        """A server's certificate and its key, both PEM. `names` are host names or, as "IP:127.0.0.1", addresses."""
        self._issued += 1
        stem = f"server-{self._issued}"
        alternatives = ",".join(name if name.startswith("IP:") else f"DNS:{name}" for name in names)
        self._openssl("req", "-x509", *KEY, "-keyout", f"{stem}.key", "-out", f"{stem}.crt", "-subj", f"/CN={stem}", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", str(days),
                      "-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={alternatives}")
        return (self.directory / f"{stem}.crt").read_bytes(), (self.directory / f"{stem}.key").read_bytes()

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)


class Mounted:
    """A directory like a Secret that the kubelet mounts: files are links through `..data`, which is swapped as a whole."""

    def __init__(self, directory: Path):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True)
        self._versions = 0

    def write(self, **files: bytes) -> None:
        """Takes `tls_crt` for `tls.crt`."""
        self._versions += 1
        version = self.directory / f"..version-{self._versions}"
        version.mkdir()
        for name, content in files.items():
            (version / name.replace("_", ".")).write_bytes(content)
        swapped = self.directory / "..data_tmp"
        swapped.symlink_to(version.name)
        swapped.rename(self.directory / "..data")
        for name in files:
            link = self.directory / name.replace("_", ".")
            if not link.is_symlink():
                link.symlink_to(Path("..data") / link.name)

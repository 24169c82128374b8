"""Unpacks Debian's packages beside the machine's own programs; nothing is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cluster.cache import CACHE, locked

ROOT = CACHE / "debian"
_PACKAGES = (
    *("containerd", "runc", "containernetworking-plugins", "conntrack", "iptables", "libip4tc2", "libip6tc2"),
    *("libxtables12", "libnftnl11", "libnfnetlink0", "libnetfilter-conntrack3", "libmnl0", "libseccomp2"),
    *("docker.io", "libdevmapper1.02.1", "debootstrap"),
)
# What a package's installation would choose among alternatives.
_IPTABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")


def unpack() -> None:
    """Downloads and unpacks them once. Raises CalledProcessError after apt has said why."""
    with locked("debian"):
        if (ROOT / "complete").exists():
            return
        archives = ROOT / "archives"
        archives.mkdir(parents=True, exist_ok=True)
        # As the user that owns the directory, not as _apt.
        download = ["apt-get", "--quiet=2", "--option=APT::Sandbox::User=root", "download", *_PACKAGES]
        subprocess.run(download, cwd=archives, check=True)
        for archive in archives.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", str(archive), str(ROOT)], check=True)
            archive.unlink()
        for name in _IPTABLES:
            link = ROOT / "usr/sbin" / name
            link.unlink(missing_ok=True)
            link.symlink_to("xtables-nft-multi")
        (ROOT / "complete").touch()


def environment() -> dict[str, str]:
    """Variables with which programs of the packages are found, and find what is theirs."""
    libraries = ROOT / "usr/lib/x86_64-linux-gnu"
    return {
        **os.environ,
        "PATH": f"{ROOT}/usr/bin:{ROOT}/usr/sbin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(libraries),
        "XTABLES_LIBDIR": str(libraries / "xtables"),
        "DEBOOTSTRAP_DIR": str(ROOT / "usr/share/debootstrap"),
    }


def program(name: str) -> Path:
    return next(path for folder in ("bin", "sbin") if (path := ROOT / "usr" / folder / name).exists())

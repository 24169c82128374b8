"""Packages for Node, kept in the cache below the home directory; where there is no Node, tests are skipped."""

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest


def node_module(package: str, version: str, entry: str) -> tuple[str, str]:
    """Node's executable, and the path of a package's module. Skips the test where either cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no Node on this machine")
    folder = Path.home() / ".cache" / "aes" / "node" / f"{package.replace('/', '-')}-{version}"
    module = folder / "node_modules" / package / entry
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not module.exists():
            command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", f"{package}@{version}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode != 0:
                pytest.skip(f"npm cannot install {package}: {done.stderr[-300:]}")
    return node, str(module)

"""JavaScript clients for Node, in the versions of `javascript/package-lock.json`; without Node their tests are skipped.

The lock has hashes and no addresses: npm asks the registry that it is configured for. Made again, after a change of
`package.json`, by `npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved`.
"""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

_DECLARED = Path(__file__).with_name("javascript")
_FILES = ("package.json", "package-lock.json")


def node_module(package: str, entry: str) -> tuple[str, str]:
    """Node's executable, and the path of a package's module. Skips the test where either cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no Node on this machine")
    digest = hashlib.sha256(b"".join((_DECLARED / name).read_bytes() for name in _FILES)).hexdigest()
    folder = Path.home() / ".cache" / "aes" / "node" / digest[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            _install(npm, folder)
    return node, str(folder / "node_modules" / package / entry)


def _install(npm: str, folder: Path) -> None:
    for name in _FILES:
        shutil.copy(_DECLARED / name, folder)
    command = [npm, "ci", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"npm cannot install the clients: {done.stderr[-300:]}")
    (folder / "installed").touch()

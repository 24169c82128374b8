"""Builds programs from Go modules once and keeps them in the user's cache directory."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

_BUILD_SECONDS = 720


class NotBuilt(Exception):
    """The program could not be built, with the reason."""


def built(program: str, module: str, version: str, *, directory: str, called: str) -> Path:
    """Returns the program of `module` at `version` and builds it first where it is missing, which may take minutes.

    `directory` in the cache is followed by the version; `called` is how a message names the program. Raises
    NotBuilt.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aes" / f"{directory}-{version}"
    if (binary := cache / program).exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise NotBuilt(f"{called} has to be built, and Go is not installed")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        # One process builds; the others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return binary if binary.exists() else _build(go, binary, f"{module}@v{version}", called)


def _build(go: str, binary: Path, package: str, called: str) -> Path:
    command = [go, "install", package]
    environment = {**os.environ, "GOBIN": str(binary.parent)}
    try:
        outcome = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS
        )
    except subprocess.TimeoutExpired:
        # Go's own cache keeps the compiled packages.
        raise NotBuilt(f"{called} was not built within {_BUILD_SECONDS} s; the next attempt goes on") from None
    if outcome.returncode != 0:
        raise NotBuilt(f"{called} could not be built: {outcome.stderr.strip()[-500:]}")
    return binary

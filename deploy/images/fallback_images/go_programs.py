"""Builds programs from Go modules, and stores them in the user's cache directory."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_BUILD_SECONDS = 1800


class NotBuilt(Exception):
    """The program couldn't be built."""


@dataclass(frozen=True)
class GoProgram:
    """A program from one version of a Go module."""

    name: str
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def path(self) -> Path:
        """The program's path in the cache, even before the build."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        # Go names a program after its package, without the major version.
        executable = Path(re.sub(r"/v\d+$", "", self.package)).name
        return cache / "aes" / f"{self.name}-{self.version}" / executable


def built(program: GoProgram) -> Path:
    """Returns the program's path. Builds a missing program, which can take minutes. Raises NotBuilt."""
    if program.path.exists():
        return program.path
    go = shutil.which("go")
    if go is None:
        raise NotBuilt(f"{program} can't be built, because Go isn't installed")
    directory = program.path.parent
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        # One process builds while the others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.path.exists():
            _build(go, program)
    return program.path


def _build(go: str, program: GoProgram) -> None:
    with tempfile.TemporaryDirectory(dir=program.path.parent) as unfinished:
        command = [go, "install", f"{program.package}@v{program.version}"]
        environment = {**os.environ, "GOBIN": unfinished}
        try:
            outcome = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS
            )
        except subprocess.TimeoutExpired:
            # Go's own cache keeps the compiled packages.
            raise NotBuilt(f"{program} wasn't built within {_BUILD_SECONDS} s; a retry resumes the build") from None
        if outcome.returncode != 0:
            raise NotBuilt(f"{program} couldn't be built: {outcome.stderr.strip()[-500:]}")
        # Renamed last, so that an interrupted build leaves nothing under the final name.
        (Path(unfinished) / program.path.name).replace(program.path)

"""Finds PostgreSQL's client programs."""

import importlib.util
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.errors import StackError
from deploy.local.postgres import installation


@dataclass(frozen=True)
class Program:
    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the program needs beside this process's environment."""


def find(name: str) -> Program:
    """Prefers the embedded stack's wheel, then programs of this machine. Raises StackError."""
    try:
        packaged = installation() / "bin" / name
    except StackError:
        packaged = Path()
    if packaged.is_file():
        return Program(packaged, _with_tls())
    if found := shutil.which(name):
        return Program(Path(found))
    raise StackError(f"{name} is not there.", "Install PostgreSQL's client programs, at least as new as the server.")


def _with_tls() -> dict[str, str]:
    # The wheel's libpq has no TLS, psycopg's has. Where one cannot replace the other, as on macOS, TLS needs the
    # machine's own client programs.
    driver = importlib.util.find_spec("psycopg_binary")
    if driver is None or driver.origin is None:
        return {}
    libraries = sorted((Path(driver.origin).parents[1] / "psycopg_binary.libs").glob("libpq-*.so.*"))
    return {"LD_PRELOAD": str(libraries[0])} if libraries else {}

"""The directory that keeps the cluster's programs, packages and images between runs."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aes" / "cluster"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Lets one process at a time make what `name` stands for."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

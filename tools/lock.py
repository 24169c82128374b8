"""Locks the versions of packages: `python -m tools.lock`.

Users install `requirements.lock`, and developers also install `requirements-dev.lock`. `deploy/images/locks` contains
the packages of all images (`base`) and the additional packages of each image.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_USERS, _DEVELOPERS = _ROOT / "requirements.lock", _ROOT / "requirements-dev.lock"
_IMAGES = _ROOT / "deploy" / "images" / "locks"
_EXTRAS = ("gateway", "registry", "runtime", "ingestion", "artifacts", "timeline", "cli", "backup")
# Locks must not contain a registry's address.
_COMPILE = (
    "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-annotate", "--no-header",
    "--no-emit-index-url", "--no-emit-find-links",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lock", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="use the newest versions that pyproject.toml allows")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []
    everything, users, base = ("--all-extras", "--group", "dev"), ("--all-extras",), _IMAGES / "base.lock"
    with tempfile.TemporaryDirectory() as directory:
        # All packages are resolved together, so that users and developers have the same versions. Locked versions are
        # kept as far as possible.
        versions = Path(directory, "versions.lock")
        versions.write_text("".join(lock.read_text() for lock in (_USERS, _DEVELOPERS) if lock.exists()))
        _run(*everything, *upgrade, "--output-file", str(versions))
        _make(_USERS, versions, users)
        _make(_DEVELOPERS, versions, everything, beyond=_USERS)
        _make(base, versions, ())
        for extra in _EXTRAS:
            _make(_IMAGES / f"{extra}.lock", versions, ("--extra", extra), beyond=base)


def _make(lock: Path, versions: Path, selection: Iterable[str], beyond: Path | None = None) -> None:
    left_out = re.findall(r"^([A-Za-z0-9._-]+)==", beyond.read_text(), re.MULTILINE) if beyond else []
    excluding = [argument for name in left_out for argument in ("--no-emit-package", name)]
    lock.parent.mkdir(exist_ok=True)
    made = _run(*selection, *excluding, "--constraint", str(versions))
    lines = [line for line in made.splitlines(keepends=True) if not line.startswith("#")]
    lock.write_text(f"# Made by python -m tools.lock.\n{''.join(lines)}")


def _run(*arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "uv"), *_COMPILE, *arguments, "pyproject.toml"]
    return subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()

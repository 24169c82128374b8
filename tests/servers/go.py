"""Servers and tools of tests that have to be built by Go. Tests take them from the user's cache and never build."""

import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

from deploy.images.fallback_images.go_programs import GoProgram, NotBuilt, built
from deploy.k8s.rendering import KUSTOMIZE

VERSITYGW = GoProgram("versitygw", "github.com/versity/versitygw/cmd/versitygw", "1.8.0")
WEAVIATE = GoProgram("weaviate", "github.com/weaviate/weaviate/cmd/weaviate-server", "1.35.2")
PROGRAMS = (KUSTOMIZE, VERSITYGW, WEAVIATE)
BUILD_COMMAND = "python -m tests.servers"


def cached(program: GoProgram) -> Path:
    """Returns the program's path, or skips the test if it hasn't been built."""
    if not program.path.exists():
        pytest.skip(reason_to_skip(program))
    return program.path


def reason_to_skip(program: GoProgram) -> str:
    if shutil.which("go") is None:
        return f"{program} must be built, but Go isn't installed"
    return f"{program} has not been built: `{BUILD_COMMAND}` or `./aes test --all` builds it"


def build_missing(programs: Iterable[GoProgram], say: Callable[[str], None]) -> bool:
    """Builds those that are not in the cache side by side; returns whether all of them are there now."""
    missing = [program for program in programs if not program.path.exists()]
    if not missing:
        return True
    say(f"Building {', '.join(map(str, missing))} with Go, which can take minutes")
    began = time.monotonic()
    succeeded = True
    with ThreadPoolExecutor(len(missing)) as executor:
        builds = {executor.submit(built, program): program for program in missing}
        for build in as_completed(builds):
            try:
                say(f"Built {build.result()} in {time.monotonic() - began:.0f} s")
            except NotBuilt as reason:
                succeeded = False
                say(str(reason))
    return succeeded

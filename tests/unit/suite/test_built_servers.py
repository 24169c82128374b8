"""Programs that Go builds: tests take them from the cache or are skipped, and only --all builds."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.go import PROGRAMS, build_missing, cached

GO = """#!/bin/sh
name=$(basename "${2%/v[0-9]*}")
name=${name%@*}
echo half > "$GOBIN/$name"
echo "$name" >> "$BUILDS"
for _ in $(seq 100); do
    [ "$(wc -l < "$BUILDS")" -lt "$TOGETHER" ] || exit "$STATUS"
    sleep 0.1
done
echo "was left alone" >&2
exit 1
"""
"""Stands in for Go: builds end when TOGETHER of them have begun."""
Go = Callable[..., list[str]]


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    """Puts a stand-in for Go in the path, beside an empty cache; returns a look at what it built."""
    programs, builds = tmp_path / "bin", tmp_path / "builds"
    programs.mkdir()
    builds.touch()
    (programs / "go").write_text(GO)
    (programs / "go").chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "BUILDS": str(builds),
        "TOGETHER": str(len(PROGRAMS)),
        "STATUS": "0",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return lambda: sorted(builds.read_text().split())


def test_all_that_are_missing_are_built_at_once_and_never_again(go: Go) -> None:
    said: list[str] = []

    assert build_missing(PROGRAMS, said.append)
    assert build_missing(PROGRAMS, said.append)

    assert go() == ["kustomize", "versitygw", "weaviate-server"]
    assert len(said) == 1 + len(PROGRAMS)
    assert all(cached(program).is_file() for program in PROGRAMS)

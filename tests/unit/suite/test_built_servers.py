"""Programs that Go builds: tests take them from the cache or are skipped, and only --all builds."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.go import PROGRAMS, VERSITYGW, build_missing, cached

ROOT = Path(__file__).parents[3]
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
TESTS = """
from tests.servers.go import VERSITYGW, cached

def test_on_a_server_that_go_builds():
    assert cached(VERSITYGW).exists()
"""
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


@pytest.fixture
def run(go: Go, tmp_path: Path) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.servers.plugin", "tests.support.suite"]\n')
        (tmp_path / "test_it.py").write_text(TESTS)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AES_"))}
        # A pytest that starts closes the usual directory to other users; servers of other tests may run in there.
        environment |= {"PYTEST_DEBUG_TEMPROOT": str(tmp_path), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "pytest", "test_it.py", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        ).stdout

    return run


def test_all_that_are_missing_are_built_at_once_and_never_again(go: Go) -> None:
    said: list[str] = []

    assert build_missing(PROGRAMS, said.append)
    assert build_missing(PROGRAMS, said.append)

    assert go() == ["kustomize", "versitygw", "weaviate-server"]
    assert len(said) == 1 + len(PROGRAMS)
    assert all(cached(program).is_file() for program in PROGRAMS)


def test_a_build_that_fails_leaves_no_program(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOGETHER", "1")
    monkeypatch.setenv("STATUS", "2")
    said: list[str] = []

    assert not build_missing([VERSITYGW], said.append)

    assert go() == ["versitygw"]
    assert "couldn't be built" in said[-1]
    with pytest.raises(pytest.skip.Exception, match="has not been built"):
        cached(VERSITYGW)


def test_without_go_tests_say_so(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    said: list[str] = []

    assert not build_missing([VERSITYGW], said.append)

    assert "Go isn't installed" in said[-1]
    with pytest.raises(pytest.skip.Exception, match="Go is not installed"):
        cached(VERSITYGW)


def test_the_short_run_builds_nothing_and_names_what_it_missed(run: Callable[..., str], go: Go) -> None:
    said = run("-n0")

    assert "= 1 skipped in " in said, said
    assert f"Tests were skipped that need {VERSITYGW} (1 tests). To build: python -m tests.servers" in said
    assert go() == []


@pytest.mark.parametrize(("option", "outcome"), [("--all", "1 passed"), ("--slow-only", "no tests ran")])
def test_a_run_of_the_slow_tests_builds_before_its_workers_start(
    option: str, outcome: str, run: Callable[..., str], go: Go
) -> None:
    said = run("-n1", option)

    assert go() == ["kustomize", "versitygw", "weaviate-server"], said
    assert said.index("Built ") < said.index("created: 1/1 worker")
    assert f" {outcome} in " in said, said
    assert "Tests were skipped" not in said

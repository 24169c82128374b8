"""The selection of tests without and with arguments, in a run of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.suite import TOGETHER

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
TESTS = """
import os, uuid
import pytest

def test_quick():
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.parametrize("value", [str(uuid.uuid4()), "a@b"])
def test_fails(value):
    assert False, os.environ.get("PYTEST_XDIST_WORKER")
"""
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: str) -> str:
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.support.suite"]\n')
        (tmp_path / "test_it.py").write_text(TESTS)
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra --strict-markers\n")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AES_"))}
        # A pytest that starts closes the usual directory to other users; servers of other tests may run in there.
        environment["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        return done.stdout

    return run


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ((), "2 failed, 1 passed, 1 deselected"),
        (("-p", "no:cacheprovider"), "2 failed, 1 passed, 1 deselected"),
        (("--all",), "2 failed, 2 passed"),
        (("--slow-only",), "1 passed, 3 deselected"),
        (("test_it.py",), "2 failed, 2 passed"),
        (("test_it.py::test_slow",), "1 passed"),
        (("-k", "slow"), "1 passed, 3 deselected"),
        (("-m", "not slow"), "2 failed, 1 passed, 1 deselected"),
    ],
)
def test_slow_tests_run_when_they_are_asked_for(run: Run, arguments: tuple[str, ...], outcome: str) -> None:
    said = run("-n0", *arguments)
    assert f"= {outcome} in " in said, said


def test_workers_run_everything_and_what_failed_runs_again_alone(run: Run) -> None:
    said = run("--all")
    assert "created: " in said
    assert "slowest 10 durations" in said
    assert "= 2 failed, 2 passed in " in said, said

    again = run("--last-failed")
    assert "created: " not in again
    assert "= 2 failed in " in again, again
    assert "test_fails[ID]" in again


def test_one_worker_runs_all_end_to_end_tests(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "tests" / "e2e").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / "e2e" / f"test_{name}.py").write_text(TESTS)
    said = run("-n3", "--tb=short", "tests/e2e")
    assert "= 4 failed, 4 passed in " in said, said
    assert len({line for line in said.splitlines() if line.startswith("E   AssertionError: gw")}) == 1, said


@pytest.mark.parametrize("place", TOGETHER)
def test_what_one_worker_runs_is_there(place: str) -> None:
    assert (ROOT / place).exists()

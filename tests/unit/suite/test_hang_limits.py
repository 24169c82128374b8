"""The plugin that keeps the suite from hanging, in a run of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow(reason="every run of the suite shows it")
ROOT = Path(__file__).parents[3]
PLUGIN = """
pytest_plugins = ["tests.support.hang_limits"]

def pytest_configure():
    from tests.support import hang_limits
    hang_limits.END_OF_THE_PROCESS = 1.0
"""
HANGS = """
import asyncio, subprocess, threading, time
import pytest

@pytest.fixture
async def never_closed():
    yield
    await asyncio.Event().wait()

@pytest.fixture(scope="session")
def never_started():
    subprocess.run(["sleep", "600"])

async def stubborn():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

async def test_body():
    await asyncio.create_task(stubborn(), name="the stubborn one")

async def test_teardown_after_a_failure(never_closed):
    assert False

def test_fixture_of_the_session(never_started):
    pass

def test_that_passes():
    pass

def test_that_leaves_a_thread():
    threading.Thread(target=time.sleep, args=(600,)).start()
"""


@pytest.fixture
def run(tmp_path: Path):
    def run(tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "conftest.py").write_text(PLUGIN)
        (tmp_path / "test_it.py").write_text(tests)
        (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\ntimeout = 1\n")
        # A pytest that starts closes the usual directory to other users; servers of other tests may run in there.
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-s", *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    return run


def test_whatever_hangs_is_ended_and_the_others_go_on(run) -> None:
    done = run(HANGS)

    assert "2 failed, 2 passed, 3 errors" in done.stdout, done.stdout
    assert "Task the stubborn one" in done.stdout
    assert done.returncode == 1
    assert "the process does not end" in done.stderr
    again = run(HANGS, "--last-failed", "-k", "after_a_failure")
    assert "1 failed, 2 deselected, 1 error" in again.stdout, again.stdout

"""The selection of tests, their marks and the workers, in a run of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow(reason="every run of the suite shows it")
ROOT = Path(__file__).parents[3]
PLUGINS = ["tests.support.seeds", "tests.support.suite", "tests.support.workers"]
RULES = "# Rules of flow\n\n1. *A rule.* Text.\n2. *Another one.* Text.\n"
TESTS = """
import os, uuid
import pytest

@pytest.mark.rule(1, 2)
def test_quick():
    pass

@pytest.mark.slow(covered_by="test_quick")
def test_slow():
    pass

@pytest.mark.parametrize("value", [str(uuid.uuid4()), "a@b"])
def test_fails(value):
    assert False, os.environ.get("PYTEST_XDIST_WORKER")
"""
WRONG = """
import pytest

@pytest.mark.rule(4)
def test_quick():
    pass

@pytest.mark.slow(covered_by=("test_gone.py::test_gone", "test_outage"))
def test_covered_by_nothing():
    pass

@pytest.mark.slow
@pytest.mark.outage("Kafka")
def test_outage():
    pass

@pytest.mark.slow
def test_unmarked():
    pass
"""
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "docs" / "concepts").mkdir(parents=True)
    (tmp_path / "docs" / "concepts" / "rules-of-flow.md").write_text(RULES)

    def run(*arguments: str) -> str:
        (tmp_path / "conftest.py").write_text(f"pytest_plugins = {PLUGINS}\n")
        (tmp_path / "test_it.py").write_text(TESTS)
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra --strict-markers\nasyncio_mode = auto\n")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AES_"))}
        # A pytest that starts closes the usual directory to other users; servers of other tests may run in there.
        environment["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_wrong_marks_are_errors(run: Run, tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_wrong.py").write_text(WRONG)
    (tmp_path / "docs" / "concepts" / "rules-of-flow.md").write_text(RULES.replace("2.", "3."))
    said = run("--all", workers)
    assert "1 error" in said, said
    for wrong in (
        "rule 2: not in rules-of-flow.md",
        "rule 3 of rules-of-flow.md: no quick test proves it",
        "rule 4: not in rules-of-flow.md",
        "test_wrong.py::test_covered_by_nothing: no quick test has the name tests/test_gone.py::test_gone",
        "test_wrong.py::test_covered_by_nothing: no quick test has the name test_wrong.py::test_outage",
        "test_wrong.py::test_outage: no quick test has the mark outage('Kafka')",
        "test_wrong.py::test_unmarked: slow, and neither covered_by nor a reason is given",
    ):
        assert wrong in said, said

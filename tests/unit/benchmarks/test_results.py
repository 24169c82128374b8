"""Documents of `aes bench … --json` tell the conditions that they were measured under."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import conditions, rest, turns
from benchmarks.command import app
from benchmarks.fair import run as fair
from benchmarks.scaling import run as scaling

ROOT = Path(__file__).parents[3]
FIGURES = {"registry": 0.17}
REST = rest.Rest(5.0, FIGURES, FIGURES, FIGURES, FIGURES, FIGURES)
GROWN = scaling.Grown(1000, 20, 10**9, FIGURES, FIGURES, FIGURES)


def operations(ratio: float) -> dict[str, dict[str, float]]:
    return {"turn": {"p95_quiet_ms": 22.0, "p95_beside_flood_ms": 22.0 * ratio, "ratio": ratio}}


def bench(monkeypatch: pytest.MonkeyPatch, module: Any, result: Any, *arguments: str) -> tuple[int, str]:
    async def run(*_: Any) -> Any:
        return result

    monkeypatch.setattr(module, "run", run)
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.stdout


@pytest.mark.parametrize(
    ("module", "result", "name"),
    [(turns, [], "turns"), (scaling, GROWN, "growth"), (fair, operations(1.8), "fair"), (rest, REST, "rest")],
)
def test_a_result_says_of_which_commit_and_machine_it_is(
    monkeypatch: pytest.MonkeyPatch, module: Any, result: Any, name: str
) -> None:
    code, printed = bench(monkeypatch, module, result, name, "--json")
    document = json.loads(printed)
    assert code == 0
    assert document["date"].endswith("+00:00")
    assert document["machine"]["cores"] >= 1
    assert document["machine"]["memory_gigabytes"] > 0
    assert document["machine"]["cpu"]
    assert len(document) > 3


def test_the_commit_is_the_present_one_and_changes_beside_it_are_told() -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if head.returncode != 0:
        pytest.skip("these sources are no clone")
    assert conditions.conditions()["commit"].removesuffix("-dirty") == head.stdout.strip()


def test_sources_that_are_no_clone_have_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conditions, "PROJECT_ROOT", tmp_path)
    assert conditions.conditions()["commit"] is None


@pytest.mark.parametrize(("ratio", "code"), [(1.8, 0), (2.1, 1)])
def test_a_company_that_waits_too_long_beside_a_flood_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, ratio: float, code: int
) -> None:
    ended, printed = bench(monkeypatch, fair, operations(ratio), "fair")
    assert ended == code
    assert f"{ratio}" in printed

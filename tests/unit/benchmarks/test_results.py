"""Documents of `aes bench … --json` tell the conditions that they were measured under."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import fair, ingest, machine, rest, scaling, search, turns
from benchmarks.command import app
from benchmarks.report import Result

FIGURES = {"registry": 0.17}
FAIR = fair.result(60.0, {"turn": 0.022}, {"turn": 0.0396})
UNFAIR = fair.result(60.0, {"turn": 0.022}, {"turn": 0.0462})


def bench(monkeypatch: pytest.MonkeyPatch, module: ModuleType, result: Result, *arguments: str) -> tuple[int, str]:
    async def run(*_: Any) -> Result:
        return result

    monkeypatch.setattr(module, "run", run)
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.stdout


@pytest.mark.parametrize(
    ("module", "result", "arguments"),
    [
        (turns, Result({"windows": []}, {}), ["turns"]),
        (scaling, scaling.result(1000, 20, 10**9, [(FIGURES, FIGURES)]), ["growth"]),
        (fair, FAIR, ["fair"]),
        (rest, rest.result(5.0, FIGURES, FIGURES, FIGURES, FIGURES, FIGURES), ["rest"]),
        (search, Result({"quality": []}, {}), ["search"]),
        (ingest, ingest.result([]), ["ingest", "."]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_result_says_of_which_commit_and_machine_it_is(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, result: Result, arguments: list[str]
) -> None:
    code, printed = bench(monkeypatch, module, result, *arguments, "--json")
    document = json.loads(printed)
    assert code == 0
    assert document.keys() > {"commit", "date", "machine"}
    assert document["date"].endswith("+00:00")
    assert document["machine"]["cores"] >= 1
    assert document["machine"]["cpu"]


def test_sources_that_are_no_clone_have_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "PROJECT_ROOT", tmp_path)
    assert machine.conditions()["commit"] is None


@pytest.mark.parametrize(("result", "code", "ratio"), [(FAIR, 0, "1.80"), (UNFAIR, 1, "2.10")])
def test_a_company_that_waits_too_long_beside_a_flood_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, result: Result, code: int, ratio: str
) -> None:
    ended, printed = bench(monkeypatch, fair, result, "fair")
    assert ended == code
    assert ratio in printed

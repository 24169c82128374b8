"""Figures of `aes bench`: how they are computed, and the conditions that they were measured under."""

import json
from math import log2
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import fair, ingest, rest, scaling, search, turns
from benchmarks.command import app
from benchmarks.load import Outcome, Side
from benchmarks.report import Result, percentile
from benchmarks.search import SHIPPED, Labelled, ndcg, recall, reciprocal_rank
from benchmarks.windows import Target, Window, ratio

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


@pytest.mark.parametrize(("result", "code", "ratio"), [(FAIR, 0, "1.80"), (UNFAIR, 1, "2.10")])
def test_a_company_that_waits_too_long_beside_a_flood_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, result: Result, code: int, ratio: str
) -> None:
    ended, printed = bench(monkeypatch, fair, result, "fair")
    assert ended == code
    assert ratio in printed


GRADES = {"a": 3, "b": 1, "c": 2, "irrelevant": 0}
IDEAL = 3 + 2 / log2(3) + 1 / 2


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [
        (["a", "c", "b"], (1, 1, 1)),
        (["x", "b", "a"], ((1 / log2(3) + 3 / 2) / IDEAL, 2 / 3, 1 / 2)),
        ([f"x{n}" for n in range(10)] + ["a"], (0, 0, 1 / 11)),
    ],
    ids=["perfect", "places and grades count", "beyond the tenth place"],
)
def test_measures_of_a_ranking(ranking: list[str], expected: tuple[float, float, float]) -> None:
    found = ndcg(ranking, GRADES), recall(ranking, GRADES), reciprocal_rank(ranking, GRADES)
    assert found == pytest.approx(expected)


def test_the_shipped_collection_is_whole() -> None:
    labelled = Labelled.read(SHIPPED)
    assert len(labelled.queries) == 40
    assert all(document in labelled.documents for grades in labelled.judgements.values() for document in grades)


def test_judgements_of_trec_and_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("d1\tsome text\nd2\tmore\n")
    (tmp_path / "queries.tsv").write_text("1\twhat\n2\tunjudged\n")
    with pytest.raises(ValueError, match="no judgements"):
        Labelled.read(tmp_path)
    (tmp_path / "test.qrels").write_text("1 Q0 d2 1\n")
    labelled = Labelled.read(tmp_path)
    assert (labelled.documents, labelled.queries) == ({"d1": "some text", "d2": "more"}, {"1": "what"})
    assert labelled.judgements == {"1": {"d2": 1}}


def a_window(side: Side, number: int, *, rate: float = 1.0, **cpu: float) -> Window:
    return Window("s", side, number, 100, rate, 10.0, 20.0, 30.0, None, None, cpu)


@pytest.mark.parametrize(
    ("values", "percent", "expected"), [([7.0], 99, 7.0), ([4.0, 1.0, 2.0, 3.0], 50, 2.5), ([0.0, 10.0], 99, 9.9)]
)
def test_percentile_lies_between_the_nearest_ranks(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == pytest.approx(expected)


def test_a_window_counts_the_turns_that_were_done_not_those_that_were_asked_for() -> None:
    measured = Window.of("s", "aes", 1, Outcome(2.0, [10.0, 20.0, 30.0, 40.0]), {"gateway": 0.004}, 0.0)

    assert (measured.turns, measured.rate, measured.p50) == (4, 2.0, 25.0)
    assert measured.cpu == {"gateway": pytest.approx(1.0)}
    assert (measured.first_text_p50, measured.creation_p50) == (None, None)


def test_a_ratio_pairs_the_windows_of_one_round_so_that_a_machine_that_slows_down_does_not_show() -> None:
    speeds = {1: (200.0, 100.0), 2: (150.0, 50.0), 3: (225.0, 25.0)}
    windows = [a_window("aes", number, rate=own) for number, (own, _) in speeds.items()]
    windows += [a_window("reference", number, rate=other) for number, (_, other) in speeds.items()]

    assert ratio(windows, "s", "rate") == pytest.approx(3.0)
    assert ratio([a_window("aes", 1), a_window("reference", 2)], "s", "rate") is None


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target("gateway and runtime", "s", "own_cpu", 4.0, relative=False), 3.5),
        (Target("the stack but what measures it", "s", "stack_cpu", 4.0, relative=False), 4.0),
        (Target("the stack to the reference's process", "s", "side_cpu", 0.5), 0.5),
    ],
)
def test_targets_on_cpu(target: Target, expected: float) -> None:
    windows = [
        a_window("aes", 1, gateway=1.5, runtime=2.0, kafka=0.5, load=1.0, stub=7.0),
        a_window("reference", 1, reference=8.0, postgres=1.0, gateway=0.1, load=1.0),
    ]

    assert target.value(windows) == pytest.approx(expected)
    assert target.met_by(target.goal)
    assert not target.met_by(target.goal + 0.1)

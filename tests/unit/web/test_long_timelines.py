"""Timelines of thousands of events: few things are drawn, and what is looked for is found."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run
from tests.unit.web.test_trace import SESSION, TURN, event

MANY = 5_000


def long_turn() -> list[dict[str, Any]]:
    """A turn of thousands of tool calls, five in each second."""
    calls = []
    for number in range(MANY):
        at = number / 5
        call = {"step": number, "call_id": f"c{number}", "name": "calculator"}
        moment = {"at": at % 40}
        calls.append(event("turn.tool_call.started", moment["at"], **call, arguments={"n": number}))
        calls.append(event("turn.tool_call.completed", moment["at"], **call, output=str(number)))
    return [event("turn.started", 0, attempt=1), *calls]


def test_of_thousands_of_bars_those_are_drawn_that_can_be_told_apart(run: Run) -> None:
    segments = [{"kind": "model" if n % 2 else "tool", "from": n, "to": n + 1} for n in range(20_000)]
    expression = "m.drawnSegments(given, (moment) => moment / 200, 1000)"
    drawn = run("model/scale.js", expression, segments)
    assert len(drawn) == 2
    assert [(each["kind"], each["count"], each["length"]) for each in drawn] == [
        ("tool", 10_000, 10_000),
        ("model", 10_000, 10_000),
    ]
    apart = [{"kind": "tool", "from": n * 400, "to": n * 400 + 100} for n in range(50)]
    assert len(run("model/scale.js", expression, apart)) == 50


def test_few_bars_are_drawn_as_they_are_and_what_is_out_of_sight_is_not(run: Run) -> None:
    segments = [{"kind": "tool", "from": n, "to": n + 1} for n in (-300, 0, 1, 30_000)]
    drawn = run("model/scale.js", "m.drawnSegments(given, (moment) => moment / 200, 1000)", segments)
    assert [each["count"] for each in drawn] == [1, 1]


def test_marks_do_not_lie_on_top_of_each_other(run: Run) -> None:
    expression = "m.drawnMarks(given, (moment) => moment / 100, 1000)"
    assert len(run("model/scale.js", expression, list(range(10_000)))) <= 334
    assert run("model/scale.js", expression, [0, 1, 2]) == [0, 0.01, 0.02]


@pytest.mark.slow(covered_by="e2e/studio/test_timeline.py::test_a_session_of_ten_thousand_events_is_a_small_document")
def test_a_turn_of_thousands_of_calls_becomes_spans(run: Run) -> None:
    shape = """(() => {
      const { roots } = m.traceOf(given, 100000);
      return [roots.length, roots[0].children.length, roots[0].segments.length > 0];
    })()"""
    # The last step is the answer, which is under way.
    assert run("model/trace.js", shape, long_turn()) == [1, MANY + 1, True]


def test_events_are_found_by_every_word_in_them(run: Run) -> None:
    events = [
        event("turn.tool_call.completed", 1, step=1, call_id="c", name="calculator", output='six "times" seven'),
        event("turn.failed", 2, error={"type": "model_error", "message": "no answer"}),
        event("session.created", 3, subject=SESSION),
    ]
    find = "m.found(given[0], {text: given[1], failures: given[2]}).map(({ type }) => type)"

    def found(text: str, failures: bool = False) -> list[str]:
        types: list[str] = run("model/events.js", find, [events, text, failures])
        return types

    assert found("") == ["turn.tool_call.completed", "turn.failed", "session.created"]
    assert found('CALCULATOR "times"') == ["turn.tool_call.completed"]
    assert found("calculator answer") == []
    assert found("", True) == ["turn.failed"]
    assert found(TURN, True) == ["turn.failed"]

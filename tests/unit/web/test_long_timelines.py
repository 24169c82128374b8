"""Timelines of thousands of events: few things are drawn, and what is looked for is found."""

from tests.unit.web.conftest import Run
from tests.unit.web.test_trace import SESSION, TURN, event


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


def test_marks_do_not_lie_on_top_of_each_other(run: Run) -> None:
    expression = "m.drawnMarks(given, (moment) => moment / 100, 1000)"
    assert len(run("model/scale.js", expression, list(range(10_000)))) <= 334
    assert run("model/scale.js", expression, [0, 1, 2]) == [0, 0.01, 0.02]


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

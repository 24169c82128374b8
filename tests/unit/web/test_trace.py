"""Events become spans: what waited, what worked, how often it was tried; of thousands few are drawn."""

from itertools import count
from typing import Any

from tests.unit.web.conftest import Run

# Its first 48 bits are 2026-05-04T08:16:20.000Z.
TURN = "019df20f-4420-7a11-8000-000000000001"
SESSION = "s-1"
_SECOND = "2026-05-04T08:16:"
_positions = count(1)


def event(name: str, at: float, /, *, subject: str = TURN, source: str = "runtime", **data: Any) -> dict[str, Any]:
    position = next(_positions)
    turn = {"turn_id": subject, "session_id": SESSION} if name.startswith("turn.") else {}
    return {
        "id": str(position),
        "position": position,
        "type": name,
        "source": f"/aes/{source}",
        "subject": subject,
        "time": f"{_SECOND}{at:09.6f}Z",
        "correlation_id": "c",
        "causation_id": None,
        **turn,
        "data": data,
    }


def lengths(span: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["kind"], round(each["to"] - each["from"])) for each in span["segments"]]


def trace(run: Run, events: list[dict[str, Any]], now: float = 1.0) -> dict[str, Any]:
    return run("model/trace.js", "m.traceOf(given[0], given[1])", [events, now])  # type: ignore[no-any-return]


def test_times_keep_their_microseconds(run: Run) -> None:
    assert run("model/format.js", "m.timeOf('1970-01-01T00:00:01.000250Z')") == 1000.25
    assert run("model/format.js", "m.timeOf('1970-01-01T00:00:01Z')") == 1000


def test_a_turn_begins_when_the_gateway_took_it_in(run: Run) -> None:
    start = run("model/format.js", f"m.timeOfId('{TURN}')")
    assert start == run("model/format.js", f"m.timeOf('{_SECOND}20.000000Z')")
    assert run("model/format.js", "m.timeOfId('9b2d2c7e-1111-4a11-8000-000000000001')") is None
    assert run("model/format.js", "m.timeOfId(null)") is None


def test_a_turn_is_waiting_model_and_tools(run: Run) -> None:
    events = [
        event("turn.queued", 20.010, position=1),
        event("turn.started", 20.100, attempt=1),
        event("turn.tool_call.started", 20.300, step=1, call_id="a", name="calculator", arguments={"x": 1}),
        event("turn.tool_call.started", 20.300, step=1, call_id="b", name="http_get", arguments={}),
        event("turn.tool_call.completed", 20.350, step=1, call_id="a", name="calculator", output="2"),
        event("turn.tool_call.failed", 20.400, step=1, call_id="b", name="http_get", reason="refused"),
        event("turn.completed", 20.600, usage={"input_tokens": 1, "output_tokens": 2}),
    ]
    found = trace(run, events)
    (turn,) = found["roots"]
    assert (turn["kind"], turn["state"]) == ("turn", "completed")
    assert lengths(turn)[:3] == [("bus", 10), ("queue", 90), ("model", 200)]
    first, answer = turn["children"]
    assert [(tool["label"], tool["state"], tool["result"]) for tool in first["children"]] == [
        ("calculator", "completed", "2"),
        ("http_get", "failed", "refused"),
    ]
    assert lengths(answer) == [("model", 200)]
    # Tools that ran at the same time are counted once.
    totals = {name: round(length) for name, length in found["totals"].items()}
    assert totals == {"waited": 100, "people": 0, "lost": 0, "model": 400, "tools": 100, "work": 0}


def test_an_attempt_that_was_lost_is_a_bar_of_its_own(run: Run) -> None:
    events = [
        event("turn.started", 20.000, attempt=1),
        event("turn.tool_call.started", 20.100, step=1, call_id="a", name="slow", arguments={}),
        event("turn.restarted", 25.100, attempt=2, resumed_from_step=0),
        event("turn.completed", 25.200),
    ]
    (turn,) = trace(run, events)["roots"]
    assert [(each["label"], each["state"]) for each in turn["children"]] == [
        ("Attempt 1", "lost"),
        ("Attempt 2", "completed"),
    ]
    assert ("lost", 5000) in lengths(turn)
    assert turn["children"][0]["children"][0]["children"][0]["state"] == "lost"


def test_a_turn_that_waits_for_a_person_shows_for_how_long(run: Run) -> None:
    call = {"id": "a", "name": "cancel", "arguments": {"booking": 1}}
    action = {"action_id": "x", "kind": "approval", "tool_call": call, "expires_at": ""}
    events = [
        event("turn.started", 20.000, attempt=1),
        event("turn.action_required", 20.100, step=1, action=action),
        event("turn.action_resolved", 50.100, action_id="x", kind="approval", call_id="a", decision="approve", by="u"),
        event("turn.tool_call.started", 50.200, step=1, call_id="a", name="cancel", arguments={"booking": 1}),
        event("turn.tool_call.completed", 50.300, step=1, call_id="a", name="cancel", output="done"),
        event("turn.completed", 50.400),
    ]
    (turn,) = trace(run, events)["roots"]
    assert turn["state"] == "completed"
    (tool,) = turn["children"][0]["children"]
    assert ("person", 30_000) in lengths(tool)
    waiting = trace(run, events[:2], now=run("model/format.js", f"m.timeOf('{_SECOND}40.000000Z')"))
    assert waiting["roots"][0]["state"] == "waiting"
    assert waiting["running"] is True


def test_turns_stand_below_their_session(run: Run) -> None:
    created = {**event("session.created", 19.0, subject=SESSION), "session_id": SESSION}
    found = trace(run, [created, event("turn.started", 20.0, attempt=1), event("turn.completed", 21.0)])
    (session,) = found["roots"]
    assert (session["kind"], [each["kind"] for each in session["children"]]) == ("session", ["turn"])


def test_what_is_unknown_is_shown_all_the_same(run: Run) -> None:
    found = trace(run, [event("weather.changed", 20.0, subject="w", source="elsewhere", mood="grey")])
    assert [(span["label"], span["service"]) for span in found["roots"]] == [("Weather", "elsewhere")]


def test_long_pauses_are_cut_and_order_is_kept(run: Run) -> None:
    intervals = [[0, 1000], [1000.5, 2000], [3_600_000, 3_601_000]]
    places = run("model/scale.js", "[0, 1000, 2000, 3600000, 3601000].map((t) => m.scaleOf(given).at(t))", intervals)
    gaps = run("model/scale.js", "m.scaleOf(given).gaps.length", intervals)
    assert gaps == 1
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == 1
    assert places[3] - places[2] < 0.05
    whole = run("model/scale.js", "m.scaleOf(given, {compress: false}).gaps.length", intervals)
    assert whole == 0


def test_a_place_leads_back_to_its_moment(run: Run) -> None:
    back = "[10, 700, 3600500].map((t) => Math.round(m.scaleOf(given).momentAt(m.scaleOf(given).at(t))))"
    assert run("model/scale.js", back, [[0, 1000], [3_600_000, 3_601_000]]) == [10, 700, 3600500]


def test_lengths_of_time_are_read_in_their_two_largest_units(run: Run) -> None:
    given = [0, 0.25, 12.34, 999, 1500, 61_000, 3_600_000, 90_000_000]
    said = run("model/format.js", "given.map(m.durationText)", given)
    assert said == ["0 s", "250 µs", "12.3 ms", "999 ms", "1.5 s", "1 min 1 s", "1 h", "1 d 1 h"]


def test_time_of_which_no_event_tells_is_not_called_the_bus(run: Run) -> None:
    failed = event("turn.failed", 22.4, error={"message": "away"})
    (turn,) = trace(run, [failed])["roots"]
    assert lengths(turn) == [("unknown", 2400)]


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

"""Server-sent events come whole out of any pieces."""

import pytest

from tests.unit.gateway.studio.conftest import Run

STREAM = ': keep-alive\nid: 7\n\nid: 8\nevent: turn.started\ndata: {"a":1}\n\ndata: one\ndata:two\n\n'
EVENTS = [
    {"id": "7", "event": "message", "data": None},
    {"id": "8", "event": "turn.started", "data": '{"a":1}'},
    {"id": None, "event": "message", "data": "one\ntwo"},
]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_events_are_the_same_whatever_the_pieces(run: Run, size: int, end: str) -> None:
    text = STREAM.replace("\n", end)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    parse = "(() => { const parser = new m.SseParser(); return given.flatMap((piece) => parser.feed(piece)); })()"
    assert run("api/sse.js", parse, pieces) == EVENTS


def test_an_event_that_is_not_complete_waits(run: Run) -> None:
    assert run("api/sse.js", "new m.SseParser().feed('id: 1\\ndata: x\\n')") == []


@pytest.mark.parametrize("end", [0, 1, 63, 64, 1024, 1025, 70_000, 1_000_000])
def test_the_end_of_the_timeline_is_found_with_few_questions(run: Run, end: int) -> None:
    search = """(async () => {
      let asked = 0;
      const probe = async (after) => {
        asked += 1;
        const events = after < given ? [{ position: after + 1 }] : [];
        return { events, has_more: after + 1 < given, next: Math.max(after, Math.min(given, after + 1)) };
      };
      return [await m.lastPosition(probe), asked];
    })()"""
    found, asked = run("model/last_position.js", f"await {search}", end)
    assert end <= found <= end + 64
    assert asked <= 32

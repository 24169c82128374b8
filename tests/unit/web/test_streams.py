"""Server-sent events come whole out of any pieces."""

import pytest

from tests.unit.web.conftest import Run, in_world

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
    assert run("api/requests.js", parse, pieces) == EVENTS


def test_an_event_that_is_not_complete_waits(run: Run) -> None:
    assert run("api/requests.js", "new m.SseParser().feed('id: 1\\ndata: x\\n')") == []


@pytest.mark.parametrize(("wanted", "first", "asked"), [(3, 6, 2), (100, 0, 5)])
def test_the_newest_events_come_in_their_order(run: Run, wanted: int, first: int, asked: int) -> None:
    read = """(async () => {
      let asked = 0;
      const page = async ({ order, before = 10 }) => {
        asked += 1;
        const events = order === "desc" ? [before - 1, before - 2].map((position) => ({ position })) : [];
        return { events, next: before - 2, has_more: before > 2 };
      };
      const parts = [];
      const positions = (events) => events.map(({ position }) => position);
      const onPart = (events) => void parts.push(positions(events));
      const { events, next } = await m.newestEvents(page, (found) => found.length >= given, { onPart });
      return [positions(events), next, asked, parts];
    })()"""
    parts = [list(range(10 - 2 * read, 10)) for read in range(1, asked)]
    assert run("model/events.js", f"await {read}", wanted) == [list(range(first, 10)), 9, asked, parts]


def test_after_a_page_of_nothing_one_follows_from_where_it_began(run: Run) -> None:
    read = "await m.newestEvents(async () => ({ events: [], next: 1, has_more: false }), () => false)"
    assert run("model/events.js", read) == {"events": [], "next": 0, "isCut": False, "before": 1}


def test_what_needs_a_connection_runs_while_the_tab_is_seen(run: Run) -> None:
    away_and_back = """
      const stop = new AbortController();
      const runs = [];
      const run = (signal) => new Promise((resolve) => {
        runs.push("began");
        signal.addEventListener("abort", () => (runs.push("ended"), resolve()));
      });
      const whole = m.whileSeen(run, stop.signal, { awayMs: 0 });
      look(true);
      await elapse(1_000);
      const away = runs.join();
      look(false);
      await elapse(1_000);
      stop.abort();
      await whole;
      return [away, runs.join()];
    """
    assert run("api/follow.js", in_world(away_and_back)) == ["began,ended", "began,ended,began,ended"]

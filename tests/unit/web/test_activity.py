"""The overview: the last hour out of events in whatever order, names and approvals; and what is read anew."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run, drawn

NOW = "Date.parse('2026-05-04T08:59:30Z')"
TAKE = f"""(() => {{
  const activity = new m.Activity();
  for (const event of given) activity.take(event);
  const now = {NOW};
  return {{ ...activity.series(now), states: activity.of("queued", "running", "waiting", "failed").map((turn) => [turn.id, turn.status]) }};
}})()"""  # noqa: E501


def event(turn: str, kind: str, second: int, **data: Any) -> dict[str, Any]:
    time = f"2026-05-04T08:58:{second:02d}.000000Z"
    return {"type": f"turn.{kind}", "time": time, "turn_id": turn, "session_id": "s", "data": data}


def test_turns_are_counted_in_the_minute_of_their_end(run: Run) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2}
    events = [
        event("a", "started", 10),
        event("a", "completed", 13, usage=usage),
        event("b", "started", 11),
        event("b", "failed", 12, error={"message": "no"}),
        event("c", "queued", 14),
        event("d", "started", 15),
        event("d", "action_required", 16),
        event("e", "started", 1),
        event("e", "action_required", 2),
        event("e", "action_resolved", 40),
        event("e", "completed", 50, usage=usage),
    ]
    found = run("model/activity.js", TAKE, events)
    assert (len(found["turns"]), found["turns"][58], found["failed"][58], found["tokens"][58]) == (60, 3, 1, 14)
    assert (found["median"][58], found["median"][57]) == (3, None), "what waited for somebody took that time"
    assert sorted(found["states"]) == [["b", "failed"], ["c", "queued"], ["d", "waiting"]]
    assert run("model/activity.js", TAKE, events[::-1]) == found, "the order does not matter"


def test_agents_of_old_sessions_are_read_once_when_they_are_shown(run: Run) -> None:
    names = """
      const named = (name) => ({ session_id: name, agent_config: { name: `Agent ${name}` } });
      serve(({ path }) => {
        if (path === "/sessions/") return Response.json({ sessions: [named("new")] });
        if (path === "/sessions/gone/") return Response.json({ error: {} }, { status: 404 });
        return Response.json(named(path.split("/")[2]));
      });
      signIn("sessions:read");
      let shown;
      const Shown = ({ ids }) => ((shown = m.useNames(ids)), null);
      draw(Shown, { ids: ["new", "old"] });
      await until(() => shown.has("old"));
      draw(Shown, { ids: ["old", "gone"] });
      await until(() => shown.has("gone"));
      return end([[...shown], requests.map(({ path }) => path)]);
    """
    found, asked = run("studio/parts/overview/activity.js", drawn(names))
    assert found == [["new", "Agent new"], ["old", "Agent old"], ["gone", "Session"]]
    assert asked == ["/sessions/", "/sessions/old/", "/sessions/gone/"]


def test_names_of_many_sessions_are_read_together_with_pauses_and_forgotten(run: Run) -> None:
    many = """
      const named = (name) => ({ session_id: name, agent_config: { name } });
      const ids = (from, count) => Array.from({ length: count }, (_, at) => `s${from + at}`);
      let newest = 0;
      serve(({ path }) => {
        if (path === "/sessions/") return Response.json({ sessions: ids(newest, 100).map(named) });
        return Response.json(named(path.split("/")[2]));
      });
      // Pauses are told.
      const pauses = [];
      const pause = window.setTimeout;
      window.setTimeout = (act, length, ...rest) => (length && pauses.push(length), pause(act, length, ...rest));
      signIn("sessions:read");
      let shown;
      const Shown = ({ ids }) => ((shown = m.useNames(ids)), null);
      draw(Shown, { ids: ids(0, 16) });
      await until(() => shown.size === 100);
      newest = 200;
      draw(Shown, { ids: ids(200, 16) });
      await until(() => shown.has("s215"));
      const afterMany = shown.size;
      draw(Shown, { ids: ["s1", "s2", "s3", "s4"] });
      await until(() => ["s1", "s2", "s3", "s4"].every((each) => shown.has(each)));
      const between = pauses.filter((length) => length === 750).length;
      draw(Shown, { ids: ["s200", "s1"] });
      await until(() => shown.size === 101);
      return end({ afterMany, between, asked: requests.map(({ path }) => path) });
    """
    found = run("studio/parts/overview/activity.js", drawn(many))
    singles = [f"/sessions/s{n}/" for n in (1, 2, 3, 4)]
    assert found["asked"] == ["/sessions/", "/sessions/", "/sessions/", *singles]
    assert found["afterMany"] == 100
    assert found["between"] >= len(singles) + 2


def test_the_first_of_more_approvals_has_the_focus(run: Run) -> None:
    more = """
      const tool_call = { name: "refund", arguments: {} };
      const made = { tool_call, session_id: "s", turn_id: "t", created_at: "2026-01-01T00:00:00Z", expires_at: null };
      const actions = Array.from({ length: 9 }, (_, at) => ({ action_id: `a${at}`, ...made }));
      serve(({ query }) => Response.json({ actions: actions.slice(0, Number(query.limit)), total: actions.length }));
      draw(m.Approvals, { changes: 0 });
      const cards = () => [...box.querySelector(".approval-cards").children];
      await until(() => cards().length === 6);
      const next = box.querySelector(".approvals-more button");
      next.focus();
      next.click();
      await until(() => cards().length === 9);
      await until(() => document.activeElement !== document.body && document.activeElement !== next);
      return end(cards().indexOf(document.activeElement));
    """
    assert run("studio/parts/overview/approvals.js", drawn(more)) == 6


ANEW = """
  const pages = [];
  serve(({ query }, signal) => {
    if (!query.order) return stream(signal);
    return new Promise((resolve) => {
      pages.push((events, more) => resolve(Response.json({ events, has_more: more, next: 1 })));
    });
  });
  const common = { session_id: "s", time: new Date().toISOString(), type: "turn.started", data: {} };
  const event = (n) => ({ position: n, turn_id: `t${n}`, ...common });
  let shown;
  const seen = [];
  const Shown = () => {
    shown = given ? m.useEvents({}) : m.useActivity();
    seen.push([shown.state, given ? shown.events.length : shown.activity.turns.size]);
    return null;
  };
  draw(Shown);
  await until(() => pages.length === 1);
  pages[0]([event(3), event(2), event(1)], true);
  await until(() => pages.length === 2);
  await until(() => seen.at(-1)[1] === 3);
  const part = seen.at(-1)[0];
  pages[1]([], false);
  await until(() => shown.state === "live");
  look(true);
  passed = 600_000;
  look(false);
  await until(() => pages.length === 3);
  seen.length = 0;
  pages[2]([], true);
  await until(() => pages.length === 4);
  await elapse(2_000);
  pages[3]([event(5), event(4)], false);
  await until(() => shown.state === "live" && seen.some(([, count]) => count === 2));
  return end([part, [...new Set(seen.map((each) => each.join(" ")))]]);
"""


@pytest.mark.parametrize("module", ["studio/parts/timeline/event_list.js", "studio/parts/overview/activity.js"])
def test_what_is_shown_stays_while_it_is_read_anew(run: Run, module: str) -> None:
    part, seen = run(module, drawn(ANEW), "timeline" in module)
    assert part == "loading"
    assert [each for each in seen if each != "live 3"] == ["live 2"]

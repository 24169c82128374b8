"""The last hour, minute by minute, out of events in whatever order."""

from typing import Any

from tests.unit.gateway.studio.conftest import Run, in_world

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
      const { session } = await import("/api/session.js");
      session.set({ state: "in", me: { scopes: ["sessions:read"] }, problem: "" });
      const { render, h } = await import("preact");
      let shown;
      const Shown = ({ ids }) => ((shown = m.useNames(ids)), null);
      const box = document.createElement("div");
      render(h(Shown, { ids: ["new", "old"] }), box);
      await until(() => shown.has("old"));
      render(h(Shown, { ids: ["old", "gone"] }), box);
      await until(() => shown.has("gone"));
      render(null, box);
      session.set({ state: "out", me: null, problem: "" });
      return [[...shown], requests.map(({ path }) => path)];
    """
    found, asked = run("parts/overview/use_names.js", in_world(names))
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
      const { session } = await import("/api/session.js");
      session.set({ state: "in", me: { scopes: ["sessions:read"] }, problem: "" });
      const { render, h } = await import("preact");
      let shown;
      const Shown = ({ ids }) => ((shown = m.useNames(ids)), null);
      const box = document.createElement("div");
      render(h(Shown, { ids: ids(0, 16) }), box);
      await until(() => shown.size === 100);
      newest = 200;
      render(h(Shown, { ids: ids(200, 16) }), box);
      await until(() => shown.has("s215"));
      const afterMany = shown.size;
      render(h(Shown, { ids: ["s1", "s2", "s3", "s4"] }), box);
      await until(() => ["s1", "s2", "s3", "s4"].every((each) => shown.has(each)));
      const between = pauses.filter((length) => length === 750).length;
      render(h(Shown, { ids: ["s200", "s1"] }), box);
      await until(() => shown.size === 101);
      render(null, box);
      session.set({ state: "out", me: null, problem: "" });
      return { afterMany, between, asked: requests.map(({ path }) => path) };
    """
    found = run("parts/overview/use_names.js", in_world(many))
    singles = [f"/sessions/s{n}/" for n in (1, 2, 3, 4)]
    assert found["asked"] == ["/sessions/", "/sessions/", "/sessions/", *singles]
    assert found["afterMany"] == 100
    assert found["between"] >= len(singles) + 2

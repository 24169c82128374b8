"""Pages with a service that is made of functions: what they show, and where the focus is."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run, drawn


def test_sessions_beyond_the_200th_are_reached(run: Run) -> None:
    many = """
      signIn("sessions:read");
      serve(({ path, query }) => {
        const [from, limit] = [Number(query.offset ?? 0), Number(query.limit)];
        const created_at = "2026-01-01T00:00:00Z";
        const all = Array.from({ length: 244 }, (_, at) => ({ session_id: `s${at}`, created_at }));
        return Response.json({ sessions: all.slice(from, from + limit), total: all.length });
      });
      show([]);
      const shown = () => box.querySelectorAll(".sessions li").length;
      for (let before = 0; shown() < 244; ) {
        await until(() => shown() > before && button("Show more"));
        before = shown();
        button("Show more").click();
        await until(() => shown() > before);
      }
      return end({ shown: shown(), more: Boolean(button("Show more")) });
    """
    assert run("studio/pages/chat.js", drawn(many)) == {"shown": 244, "more": False}


def test_a_conversation_is_deleted_once_somebody_has_said_so(run: Run) -> None:
    deleting = """
      signIn("sessions:read", "sessions:write");
      let sessions = [{ session_id: "s", created_at: "2026-01-01T00:00:00Z" }];
      serve(({ method, path }) => {
        if (method === "DELETE") return ((sessions = []), new Response(null, { status: 204 }));
        if (path.endsWith("/messages/")) return Response.json({ messages: [], total: 0 });
        if (path === "/sessions/s/") return Response.json(sessions[0]);
        return Response.json({ sessions, total: sessions.length });
      });
      const deletions = () => requests.filter(({ method }) => method === "DELETE").map(({ path }) => path);
      show(["s"]);
      await until(() => button("Delete") && box.querySelector(".sessions li"));
      button("Delete").click();
      await until(() => box.querySelector("dialog"));
      const before = deletions();
      box.querySelector("dialog .danger").click();
      await until(() => location.pathname === "/studio/chat/" && !box.querySelector(".sessions li"));
      return end({ before, deletions: deletions() });
    """
    found = run("studio/pages/chat.js", drawn(deleting))
    assert found == {"before": [], "deletions": ["/sessions/s/"]}


TOOLSET = {"name": "one", "type": "mcp", "version": 1, "url": "https://a.example/mcp", "tools": []}
WEBHOOK = {"id": "one", "url": "https://a.example/", "event_types": ["*"], "description": "", "status": "enabled"}
BASE = {"id": "one", "name": "Handbook", "collection_ids": [], "file_ids": [], "updated_at": "2026-01-01T00:00:00Z"}
WHAT_IS_EDITED = {
    "toolsets": ("toolsets/one/", TOOLSET, {"description": "of a colleague"}, {"refreshed_at": "2026-02-01T00:00:00Z"}),
    "webhooks": (
        "webhooks/one/",
        WEBHOOK,
        {"description": "of a colleague"},
        {"failing_since": "2026-02-01T00:00:00Z"},
    ),
    "knowledge": ("knowledge/one/settings/", BASE, {"file_ids": ["f"]}, {"progress": 7}),
}


@pytest.mark.parametrize("name", WHAT_IS_EDITED)
def test_a_change_of_somebody_else_is_not_replaced_unasked(run: Run, name: str) -> None:
    path, opened, theirs, other = WHAT_IS_EDITED[name]
    given: dict[str, Any] = {"segments": path.split("/")[1:-1], "opened": opened, "theirs": theirs, "other": other}
    saving = """
      signIn("toolsets:read", "toolsets:write", "webhooks:read", "webhooks:write", "knowledge:read", "knowledge:write");
      let now = { created_at: "2026-01-01T00:00:00Z", refreshed_at: "2026-01-01T00:00:00Z", ...given.opened };
      const names = ["toolsets", "webhooks", "deliveries", "knowledge_bases", "collections", "files"];
      const lists = { total: 0, ...Object.fromEntries(names.map((name) => [name, []])) };
      serve(({ path }) => Response.json(path.endsWith("/one/") ? now : lists));
      const saved = () => requests.filter(({ method }) => method === "PATCH").length;
      const refused = () => box.textContent.includes("changed elsewhere");
      const save = async (wanted) => {
        await until(() => button("Save") && !button("Save").disabled);
        button("Save").click();
        await until(wanted);
      };
      const edit = async () => {
        show([]);
        await elapse(1_000);
        show(given.segments);
        await until(() => button("Change") || button("Save"));
        button("Change")?.click();
      };
      await edit();
      now = { ...now, ...given.theirs };
      await save(refused);
      const before = saved();
      await save(() => saved() === 1);
      await edit();
      now = { ...now, ...given.other };
      await save(() => saved() === 2);
      return end({ before, refused: refused() });
    """
    assert run(f"studio/pages/{name}.js", drawn(saving), given) == {"before": 0, "refused": False}


def test_a_reading_key_reads_a_conversation(run: Run) -> None:
    reading = """
      signIn("sessions:read");
      const said = [["user", "Hello"], ["assistant", "Hi."]];
      const messages = said.map(([role, content]) => ({ id: role, role, content, turn_id: "t", timestamp: "2026" }));
      serve(({ path }) => {
        if (path.endsWith("/messages/")) return Response.json({ messages, total: 2 });
        return Response.json(path === "/sessions/s/" ? { session_id: "s" } : { sessions: [], total: 0 });
      });
      show(["s"]);
      await until(() => box.textContent.includes("Hi."));
      const { pagesFor } = await import("/studio/pages.js");
      const isThere = pagesFor(["sessions:read"]).some(({ path }) => path === "chat/");
      const writes = box.querySelectorAll("textarea").length;
      return end({ isThere, writes, again: Boolean(button("Try again from here")) });
    """
    assert run("studio/pages/chat.js", drawn(reading)) == {"isThere": True, "writes": 0, "again": False}


def test_the_first_message_keeps_the_focus_and_what_is_written_meanwhile(run: Run) -> None:
    first = """
      signIn("agents:read", "sessions:read", "runtime:execute");
      let made;
      serve(({ method, path }, signal) => {
        if (method === "POST" && path === "/sessions/") {
          return new Promise((resolve) => (made = () => resolve(Response.json({ session_id: "s" }))));
        }
        if (path.endsWith("/execute/")) return stream(signal, { location: "/api/v1/runtime/s/turns/t/events/" });
        if (path === "/agent/") return Response.json([{ id: "a", name: "Harbour" }]);
        if (path.endsWith("/messages/")) return Response.json({ messages: [], total: 0 });
        return Response.json(path === "/sessions/s/" ? { session_id: "s", agent_id: "a" } : { sessions: [], total: 0 });
      });
      history.replaceState(null, "", "/studio/chat/");
      show([]);
      const field = () => box.querySelector("textarea");
      await until(() => box.querySelector("option"));
      field().focus();
      const write = (text) => ((field().value = text), field().dispatchEvent(new Event("input", { bubbles: true })));
      write("Hello");
      await elapse(100);
      field().dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
      await until(() => made);
      write("and then");
      made();
      await until(() => location.pathname === "/studio/chat/s/");
      const before = field();
      show(["s"]);
      await until(() => field() && field() !== before);
      await elapse(100);
      return end({ isFocused: document.activeElement === field(), written: field().value });
    """
    assert run("studio/pages/chat.js", drawn(first)) == {"isFocused": True, "written": "and then"}


def test_what_is_written_goes_along_to_another_agent(run: Run) -> None:
    chosen = """
      signIn("agents:read", "sessions:read", "runtime:execute");
      serve(({ path }, signal) => {
        if (path === "/agent/") return Response.json(["a", "b"].map((id) => ({ id, name: id })));
        if (path.endsWith("/messages/")) return Response.json({ messages: [], total: 0 });
        return Response.json(path === "/sessions/s/" ? { session_id: "s", agent_id: "a" } : { sessions: [], total: 0 });
      });
      show(["s"]);
      await until(() => box.querySelectorAll("option").length === 2 && box.querySelector("textarea"));
      const field = box.querySelector("textarea");
      field.value = "half written";
      field.dispatchEvent(new Event("input", { bubbles: true }));
      const agents = box.querySelector("select");
      agents.value = "b";
      agents.dispatchEvent(new Event("change", { bubbles: true }));
      await until(() => location.search === "?agent=b");
      show([], "agent=b");
      await until(() => box.querySelector("textarea") !== field);
      const moved = box.querySelector("textarea").value;
      show(["s"]);
      await until(() => box.querySelector("textarea")?.value === "");
      return end(moved);
    """
    assert run("studio/pages/chat.js", drawn(chosen)) == "half written"


def test_a_session_that_is_not_there_offers_nothing(run: Run) -> None:
    unknown = """
      signIn("agents:read", "sessions:read", "runtime:execute");
      const nothing = { error: { type: "not_found", message: "There is no session with this ID." } };
      serve(({ path }) => {
        if (path === "/agent/") return Response.json([{ id: "a", name: "Harbour" }]);
        if (path === "/sessions/") return Response.json({ sessions: [], total: 0 });
        return Response.json(nothing, { status: 404 });
      });
      show(["s"]);
      await until(() => box.textContent.includes("There is no session"));
      const links = [...box.querySelectorAll("a")].map((each) => each.textContent);
      return end({ links, fields: box.querySelectorAll("textarea").length });
    """
    found = run("studio/pages/chat.js", drawn(unknown))
    assert found == {"links": ["New chat", "Start a new chat"], "fields": 0}


def test_a_citation_is_marked_in_its_file(run: Run) -> None:
    cited = """
      signIn("files:read");
      const text = `${"Before it. ".repeat(50)}The harbour master\nis Ingrid. After it.`;
      const file = {
        id: "f", name: "notes.txt", content_type: "text/plain", size: 9, sha256: "5f", status: "active",
        tags: [], collection_ids: [], created_at: "2026-01-01T00:00:00Z",
      };
      serve(({ path }) => {
        if (path === "/files/f/text/") return Response.json({ text, characters: text.length });
        return Response.json(path === "/files/f/" ? file : { collections: [], knowledge_bases: [], total: 0 });
      });
      show(["f"], new URLSearchParams({ passage: "The harbour master is Ingrid." }));
      await until(() => box.querySelector("mark"));
      return end(box.querySelector("mark").textContent);
    """
    assert run("studio/pages/files.js", drawn(cited)) == "The harbour master\nis Ingrid."


def test_a_webhook_that_delivers_nothing_is_not_called_enabled(run: Run) -> None:
    failing = """
      signIn("webhooks:read");
      const webhook = (id, failing_since) => ({
        id, url: `https://example.com/${id}`, event_types: ["*"], description: "", status: "enabled", failing_since,
        created_at: "2026-01-01T00:00:00Z",
      });
      const webhooks = [webhook("a", null), webhook("b", "2026-01-01T00:00:00Z")];
      serve(() => Response.json({ webhooks, total: 2 }));
      show([]);
      const chips = () => [...box.querySelectorAll(".chip")].map((each) => each.textContent);
      const states = () => chips().filter((each) => each !== "*");
      await until(() => states().length);
      return end(states());
    """
    assert run("studio/pages/webhooks.js", drawn(failing)) == ["enabled", "failing"]


def test_labels_of_an_axis_have_room(run: Run) -> None:
    labels = """
      const series = [{ label: "in", values: [12_345_678, 23_456_789], colour: "gateway" }];
      draw(m.Chart, { title: "Tokens", summary: "", times: [1, 86_401], series, dates: true });
      await until(() => box.querySelectorAll(".u-axis").length === 2);
      const text = document.createElement("canvas").getContext("2d");
      text.font = "11px system-ui, sans-serif";
      const [, axis] = box.querySelectorAll(".u-axis");
      return end({ room: axis.getBoundingClientRect().width, needed: text.measureText("20,000,000").width });
    """
    found = run("studio/parts/charts/chart.js", drawn(labels))
    assert found["room"] >= found["needed"] + 8


def test_a_change_made_elsewhere_is_not_overwritten_silently(run: Run) -> None:
    conflict = """
      signIn("agents:read", "agents:write");
      const agent = (number, prompt) => ({
        id: "a", name: "Harbour", agent_key: "harbour", allowed_origins: [],
        version_number: `1.0.${number}`, updated_at: `2026-0${number + 1}`,
        system_config: { name: "Harbour", agent_type: "llm_agent", system_prompt: prompt },
      });
      let stored = agent(0, "first");
      serve(({ method, path }) => {
        if (path === "/agent/validate/") return Response.json({ valid: true, errors: [], warnings: [] });
        if (method === "PATCH") return Response.json((stored = agent(2, "mine")));
        if (path === "/agent/a/") return Response.json(stored);
        return Response.json({ versions: [], tools: [], connections: [], total: 0 });
      });
      const saved = () => requests.filter(({ method }) => method === "PATCH").length;
      show(["a"]);
      await until(() => button("Save"));
      stored = agent(1, "theirs");
      button("Save").click();
      await until(() => button("Save anyway"));
      const before = saved();
      button("Save anyway").click();
      await until(() => saved() === 1 && !button("Save anyway"));
      return end({ before, version: stored.version_number });
    """
    assert run("studio/pages/agents.js", drawn(conflict)) == {"before": 0, "version": "1.0.2"}


CHAT = """
  signIn("agents:read", "sessions:read", "sessions:write", "runtime:execute");
  history.replaceState(null, "", "/studio/chat/s/");
  const message = (role, turn, content) => (
    { id: role + turn, role, turn_id: turn, content, timestamp: `2026-0${turn}` });
  const messages = [
    message("user", "1", "Hello"), message("assistant", "1", "Hi."), message("user", "2", "lost"),
    message("user", "3", "When?"), message("assistant", "3", "At nine."),
  ];
  const agent = { id: "a", name: "Harbour", version_number: "1.0.5", config_hash: given };
  const posted = [];
  serve(async ({ method, path }, signal) => {
    if (path.endsWith("/messages/")) return Response.json({ messages, total: messages.length });
    if (path.endsWith("/artifacts/")) return Response.json({ artifacts: [] });
    if (path === "/agent/") return Response.json([agent]);
    if (path === "/agent/a/") return Response.json(agent);
    if (path === "/sessions/s/") return Response.json({ session_id: "s", agent_id: "a", config_hash: "old" });
    if (method === "POST") return Response.json({ session_id: "n" });
    return Response.json({ sessions: [], total: 0 });
  });
  const served = window.fetch;
  window.fetch = (address, options) => {
    const path = new URL(address, location.href).pathname.replace("/api/v1", "");
    if (options.method === "POST") posted.push([path, JSON.parse(options.body)]);
    return served(address, options);
  };
  show(["s"]);
  const buttons = () => [...box.querySelectorAll("button")].filter((each) => !each.disabled);
  const last = (text) => buttons().findLast((each) => each.textContent === text);
  await until(() => last("Try again from here") && box.textContent.includes("At nine."));
  await until(() => requests.some(({ path }) => path === "/sessions/s/"));
  await elapse(200);
  last("Try again from here").click();
"""
END = """
  await until(() => location.pathname === "/studio/chat/n/");
  return end(posted[0]);
"""
FORKED: list[Any] = ["/sessions/s/fork/", {"before_turn_id": "3"}]
NEWEST = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}


@pytest.mark.parametrize(
    ("config_hash", "choice", "sent"),
    [
        ("old", "", FORKED),
        ("new", "This conversation's version", FORKED),
        ("new", "Newest version", ["/sessions/", {"agent_id": "a", "messages": list(NEWEST)}]),
    ],
)
def test_an_agent_that_has_changed_is_asked_for(run: Run, config_hash: str, choice: str, sent: list[Any]) -> None:
    choose = f'await until(() => last("{choice}")); last("{choice}").click();' if choice else ""
    assert run("studio/pages/chat.js", drawn(CHAT + choose + END), config_hash) == sent

"""The chat for web pages: its look, and what it says when the service does not answer, or not to this page."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run, in_world
from web.assets import FOLDER

CHAT = """
  localStorage.clear();
  const asked = (path) => requests.filter((request) => request.path === path).length;
  const executed = () => requests.filter(({ path }) => path.endsWith("/execute/")).length;
  // What a page may not read looks like a service that is away.
  const hide = () => { throw new TypeError("Failed to fetch"); };
  const started = (settings = {}) => {
    m.start({ connectionKey: `pub_${Math.random()}`, origin: location.origin, open: "", ...settings });
    const { shadowRoot: root } = [...document.querySelectorAll("aes-chat")].at(-1);
    const [field, problem, form] = ["textarea", ".panel > .problem", "form"].map((each) => root.querySelector(each));
    const say = (text) => {
      field.value = text;
      field.dispatchEvent(new Event("input"));
      form.requestSubmit();
    };
    const turn = () => root.querySelector(".turn .problem, .turn .turn-facts")?.textContent;
    const left = () => (root.querySelector("[aria-label='Start over']").click(), root.host.remove());
    return { root, field, problem, say, turn, left };
  };
"""

ABSENCES = {
    "network": 'throw new TypeError("Failed to fetch")',
    "proxy": 'if (path === "/widget.js") return new Response("", { status: 502 }); hide()',
    "slow": 'if (path === "/widget.js") return new Response(""); throw new DOMException("late", "TimeoutError")',
    "outage": """
      if (path === "/widget.js") return new Response("");
      if (path !== "/me/") hide();
      return Response.json({ error: { type: "service_unavailable", message: "away" } }, { status: 503 });
    """,
}


@pytest.mark.parametrize("absence", ABSENCES)
def test_a_chat_waits_for_a_service_that_is_away(run: Run, absence: str) -> None:
    away = """
      let isAway = false;
      const absent = (path) => { %s };
      serve(({ path, method }, signal) => {
        if (isAway) return absent(path);
        if (path.endsWith("/execute/")) return stream(signal, { location: "/api/v1/runtime/s/turns/t/events/" });
        if (path.endsWith("/events/")) return stream(signal);
        return Response.json(path === "/me/" ? { scopes: [] } : { session_id: "s" });
      });
      const { root, say, problem, left } = started();
      await until(() => asked("/me/") === 1);
      say("Hello");
      await until(() => streams.length === 1);
      isAway = true;
      streams[0].fail();
      // Asked again and again: each time it is no refusal.
      await until(() => asked("/me/") > 4);
      const during = [problem.textContent, root.querySelector(".status").textContent];
      isAway = false;
      await until(() => streams.length === 2);
      streams[1].write('event: turn.completed\\ndata: {"response": {"content": "Whole."}}\\n\\n');
      await until(() => root.querySelector(".markdown p"));
      const answer = root.querySelector(".turn .reply > .markdown").textContent;
      left();
      return [...during, answer];
    """
    found = run("widget/main.js", in_world(CHAT + away % ABSENCES[absence]))
    assert found == ["", "Connection lost. Retrying…", "Whole."]


ENDS = """
  let isAllowed = true;
  serve(({ path }) => {
    if (path === "/widget.js") return new Response("");
    if (!isAllowed || path.endsWith("/execute/")) hide();
    return Response.json(path === "/me/" ? { scopes: ["artifacts:write"] } : { session_id: "s" });
  });
  const { root, field, problem, say, turn, left } = started();
  await until(() => asked("/me/") === 1 && !root.querySelector("[aria-label='Attach files']").hidden);
"""


def test_a_chat_whose_key_has_ended_says_so_and_gives_back_what_was_not_sent(run: Run) -> None:
    ended = """
      say("Hello");
      await until(() => executed() > 1);
      field.value = "and";
      field.dispatchEvent(new Event("input"));
      field.focus();
      isAllowed = false;
      await until(() => !problem.hidden);
      await elapse(10_000);
      const before = executed();
      await elapse(20_000);
      const goesOn = executed() > before;
      const focused = root.activeElement.getAttribute("aria-label");
      const canBeCopied = !field.disabled && !field.closest("[inert]");
      const offered = [".send", "[aria-label='Attach files']"].filter((each) => !root.querySelector(each).disabled);
      const mayWrite = !field.readOnly || offered.length > 0;
      root.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
      const isOpen = !root.querySelector(".panel").hidden;
      const shown = { said: problem.textContent, turn: turn(), kept: field.value };
      Object.assign(shown, { goesOn, focused, canBeCopied, mayWrite, isOpen });
      left();
      return shown;
    """
    found = run("widget/main.js", in_world(CHAT + ENDS + ended))
    assert "has ended" in found.pop("said")
    assert found == {
        "turn": "Something went wrong.",
        "goesOn": False,
        "focused": "Close",
        "kept": "Hello\n\nand",
        "canBeCopied": True,
        "mayWrite": False,
        "isOpen": False,
    }


@pytest.mark.parametrize("what", ["message", "file"])
def test_a_chat_whose_key_has_ended_says_so_where_nothing_is_streamed(run: Run, what: str) -> None:
    ended = """
      isAllowed = false;
      if (given === "message") {
        say("Hello");
      } else {
        const files = new DataTransfer();
        files.items.add(new File(["text"], "notes.md"));
        const chosen = root.querySelector("input[type=file]");
        chosen.files = files.files;
        chosen.dispatchEvent(new Event("change"));
      }
      await until(() => problem.textContent.includes("has ended"));
      const kept = field.value;
      left();
      return kept;
    """
    assert run("widget/main.js", in_world(CHAT + ENDS + ended), what) == ("Hello" if what == "message" else "")


def test_a_stream_that_goes_on_takes_the_doubt_away(run: Run) -> None:
    replicas = """
      serve(async ({ path }, signal) => {
        if (path === "/widget.js") return new Response("");
        if (path.endsWith("/execute/")) return stream(signal, { location: "/api/v1/runtime/s/turns/t/events/" });
        if (path.endsWith("/events/")) return asked("/widget.js") ? stream(signal) : hide();
        if (path === "/me/" && streams.length) {
          // The second answer comes when the stream goes on.
          await until(() => asked("/me/") === 2 || streams.length === 2);
          hide();
        }
        return Response.json(path === "/me/" ? { scopes: [] } : { session_id: "s" });
      });
      const { say, problem, left } = started();
      await until(() => asked("/me/") === 1);
      say("Hello");
      await until(() => streams.length === 1);
      streams[0].fail();
      await until(() => streams.length === 2);
      await elapse(20_000);
      const said = problem.textContent;
      left();
      return said;
    """
    assert run("widget/main.js", in_world(CHAT + replicas)) == ""


def test_theme_and_position_are_those_that_the_page_wants(run: Run) -> None:
    looks = """
      serve(() => Response.json({ scopes: [] }));
      const looks = given.map((settings) => {
        const { root, left } = started(settings);
        const place = root.host.getBoundingClientRect();
        const look = {
          surface: getComputedStyle(root.querySelector(".panel")).backgroundColor,
          isLeft: place.left < innerWidth - place.right,
        };
        left();
        return look;
      });
      return looks;
    """
    wanted = [{}, {"theme": "light"}, {"theme": "dark"}, {"position": "left"}, {"position": "right", "theme": "dark"}]
    white, black = "rgb(255, 255, 255)", "rgb(22, 27, 34)"
    # The browser's own scheme is the light one.
    assert run("widget/main.js", in_world(CHAT + looks), wanted) == [
        {"surface": white, "isLeft": False},
        {"surface": white, "isLeft": False},
        {"surface": black, "isLeft": False},
        {"surface": white, "isLeft": True},
        {"surface": black, "isLeft": False},
    ]


def test_its_rules_are_those_of_the_style_sheets_that_it_shares_with_the_studio(run: Run) -> None:
    files = ("studio/styles/tokens.css", "studio/styles/base.css", "chat/chat.css", "widget/widget.css")
    texts = "\n".join((FOLDER / file).read_text() for file in files)
    read = """(() => {
      const whole = new CSSStyleSheet();
      whole.replaceSync(given);
      const rulesOf = (sheet) => [...sheet.cssRules].map(({ cssText }) => cssText.replaceAll(", ", ","));
      return [rulesOf(whole), rulesOf(m.styleSheets(null)[0])];
    })()"""
    written, sent = run("widget/panel.js", read, texts)
    assert len(written) > 80
    assert sent == written


COLOURS = (("#ffee88", "#000000"), ("#0a6d78", "#ffffff"), ("rebeccapurple", "#ffffff"))


@pytest.mark.parametrize(("accent", "text"), COLOURS)
def test_text_on_a_colour_of_the_page_can_be_read(run: Run, accent: str, text: str) -> None:
    rules = run("widget/panel.js", "m.styleSheets(given).at(-1).cssRules[0].cssText", accent)
    assert f"--accent-text: {text}" in rules


@pytest.mark.parametrize("accent", [None, "", "no colour", "red; } * { display: none", "var(--x)"])
def test_what_is_no_colour_changes_nothing(run: Run, accent: Any) -> None:
    assert run("widget/panel.js", "m.styleSheets(given).length", accent) == 1


def test_a_page_without_storage_still_has_a_conversation(run: Run) -> None:
    forgetful = """(() => {
      Object.defineProperty(globalThis, "localStorage", { get() { throw new Error("denied"); } });
      const memory = new m.Memory("k");
      memory.keep("session");
      return memory.session;
    })()"""
    assert run("widget/visitor.js", forgetful) == "session"


VIEW = """(async () => {
  const { Turn } = await import("/chat/conversation.js");
  const turn = new Turn("t");
  for (const [type, data] of given) turn.take(type, data);
  const { render, h } = await import("preact");
  const box = document.createElement("div");
  render(h(m.Widget, { words: {}, on: {}, visitor: { key: 1, turns: [turn] }, text: "", takesMessages: true }), box);
  const shown = box.querySelector(".turn").textContent;
  render(null, box);
  return shown;
})()"""


def told(run: Run, *events: tuple[str, dict[str, Any]]) -> str:
    text: str = run("widget/panel.js", f"await {VIEW}", [["turn.started", {"attempt": 1}], *map(list, events)])
    return text


def test_visitors_see_no_tools(run: Run) -> None:
    call = {"step": 1, "call_id": "c", "name": "ledger_lookup"}
    text = ("turn.output_text.delta", {"attempt": 1, "step": 1, "offset": 0, "text": "One moment."})
    calling = told(run, text, ("turn.tool_call.started", {**call, "arguments": {}}))
    assert "One moment." in calling
    assert "Working…" in calling
    assert "ledger_lookup" not in calling
    asked = {"id": "c", "name": "ledger_lookup", "arguments": {}}
    action = {"action_id": "a", "kind": "approval", "tool_call": asked}
    waiting = told(run, ("turn.action_required", {"step": 1, "action": action}))
    assert "Waiting for approval…" in waiting
    assert "ledger_lookup" not in waiting


def test_a_failure_has_a_reference(run: Run) -> None:
    error = {"message": "The assistant can't answer right now.", "correlation_id": "label-1"}
    failed = told(run, ("turn.failed", {"error": error}))
    assert "The assistant can't answer right now. Reference: label-1" in failed

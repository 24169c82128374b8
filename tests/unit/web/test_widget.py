"""The chat for web pages: colours that can be read, and what visitors are told."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run
from web.assets import FOLDER


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

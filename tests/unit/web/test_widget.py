"""The chat for web pages: text of models as elements, without any parser of HTML, and colours that can be read."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run

SHOWN = """(() => {
  const markdown = new m.Markdown();
  for (const text of given) markdown.show(text);
  return markdown.node.innerHTML;
})()"""


def shown(run: Run, *texts: str) -> str:
    html: str = run("widget/markdown.js", SHOWN, list(texts))
    return html


RENDERED = (
    ("**bold** and *soft*", "<p><strong>bold</strong> and <em>soft</em></p>"),
    ("# One", "<h3>One</h3>"),
    ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
    ("3. c", '<ol start="3"><li>c</li></ol>'),
    ("- [x] done", "<ul><li>☑ done</li></ul>"),
    ("`a < b`", "<p><code>a &lt; b</code></p>"),
    ("one\ntwo", "<p>one<br>two</p>"),
    ("AT&amp;T &#9731;", "<p>AT&amp;T ☃</p>"),
    (
        "[x](https://shop.example)",
        '<p><a href="https://shop.example" target="_blank" rel="noopener noreferrer nofollow">x</a></p>',
    ),
)


@pytest.mark.parametrize(("text", "html"), RENDERED)
def test_markdown_becomes_elements(run: Run, text: str, html: str) -> None:
    assert shown(run, text) == html


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "text <b onclick=alert(1)>bold</b>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "![x](data:text/html;base64,AAAA)",
    "<a href='javascript:alert(1)'>x</a>",
    '"><svg onload=alert(1)>',
    "```html\n</code></pre><img src=x onerror=alert(1)>\n```",
    "| a |\n|---|\n| <iframe src=//x> |",
)
NAMES = {"A", "BLOCKQUOTE", "BR", "CODE", "DIV", "EM", "LI", "OL", "P", "PRE", "SPAN", "STRONG"} | {
    "TABLE", "TBODY", "TD", "TH", "THEAD", "TR", "UL",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element_of_its_own(run: Run, text: str) -> None:
    count = """(() => {
      const markdown = new m.Markdown();
      markdown.show(given);
      const attributesOf = (each) => each.getAttributeNames().map((name) => `${name}=${each.getAttribute(name)}`);
      return [...markdown.node.querySelectorAll("*")].map((each) => [each.tagName, ...attributesOf(each)]);
    })()"""
    elements: list[list[str]] = run("widget/markdown.js", count, text)
    assert {name for name, *_ in elements} <= NAMES
    for _, *attributes in elements:
        assert not [each for each in attributes if each.startswith(("on", "src", "style"))]
        assert not [each for each in attributes if "script:" in each.lower() or "data:" in each.lower()]


def test_a_text_that_grows_keeps_what_stands(run: Run) -> None:
    same = """(() => {
      const markdown = new m.Markdown();
      markdown.show("First.\\n\\nSec");
      const first = markdown.node.firstChild;
      markdown.show("First.\\n\\nSecond.");
      return [first === markdown.node.firstChild, markdown.node.textContent];
    })()"""
    assert run("widget/markdown.js", same) == [True, "First.Second."]


def test_a_text_that_changes_is_shown_as_it_is_now(run: Run) -> None:
    assert shown(run, "one\n\ntwo", "one") == "<p>one</p>"


COLOURS = (("#ffee88", "#000000"), ("#0a6d78", "#ffffff"), ("rebeccapurple", "#ffffff"))


@pytest.mark.parametrize(("accent", "text"), COLOURS)
def test_text_on_a_colour_of_the_page_can_be_read(run: Run, accent: str, text: str) -> None:
    rules = run("widget/styles.js", "m.styleSheets(given).at(-1).cssRules[0].cssText", accent)
    assert f"--accent-text: {text}" in rules


@pytest.mark.parametrize("accent", [None, "", "no colour", "red; } * { display: none", "var(--x)"])
def test_what_is_no_colour_changes_nothing(run: Run, accent: Any) -> None:
    assert run("widget/styles.js", "m.styleSheets(given).length", accent) == 1


def test_a_page_without_storage_still_has_a_conversation(run: Run) -> None:
    forgetful = """(() => {
      Object.defineProperty(globalThis, "localStorage", { get() { throw new Error("denied"); } });
      const memory = new m.Memory("k");
      memory.keep("session");
      return memory.session;
    })()"""
    assert run("widget/memory.js", forgetful) == "session"


VIEW = """(async () => {
  const { Turn } = await import("/model/conversation.js");
  const turn = new Turn("t");
  for (const [type, data] of given) turn.take(type, data);
  return new m.TurnView(turn, () => {}).node.textContent;
})()"""


def told(run: Run, *events: tuple[str, dict[str, Any]]) -> str:
    text: str = run("widget/turn_view.js", f"await {VIEW}", [["turn.started", {"attempt": 1}], *map(list, events)])
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
    assert "Waits for somebody's approval…" in waiting
    assert "ledger_lookup" not in waiting


def test_a_failure_has_a_reference(run: Run) -> None:
    error = {"message": "The assistant cannot answer right now.", "correlation_id": "label-1"}
    failed = told(run, ("turn.failed", {"error": error}))
    assert "The assistant cannot answer right now. Reference: label-1" in failed

"""The chat: what an agent says and does, while it does it and after a reload."""

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.api import configuration, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.studio.conftest import Open
from tests.e2e.test_waits import ORDER_STATUS
from tests.support.browser import violations, violations_in_both_looks

Agent = Callable[..., str]


@pytest.fixture
def agent(http: httpx.Client) -> Agent:
    """Makes an agent; returns its name."""

    def agent(**fields: object) -> str:
        name = unique("Agent")
        made = http.post("/agent/", json={**configuration(**fields), "name": name})  # type: ignore[arg-type]
        assert made.status_code == 201, made.text
        return name

    return agent


def say(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.keyboard.press("Enter")


def begin(page: Page, agent: str, text: str) -> None:
    page.get_by_role("combobox", name="Agent").select_option(label=agent)
    say(page, text)


def test_a_conversation_with_a_tool_is_there_after_a_reload(open_page: Open, agent: Agent) -> None:
    name = agent(model="builtin:extractive", tools=["calculator"])
    page = open_page("chat/")
    begin(page, name, "What is 6 * 7?")
    log = page.get_by_role("log")
    expect(log).to_contain_text("6 * 7 = 42")
    expect(log).to_contain_text("calculator")
    expect(page).to_have_url(re.compile(r"/studio/chat/[0-9a-f-]{36}/$"))
    say(page, "What is 6 * 8?")
    expect(log).to_contain_text("6 * 8 = 48")
    page.reload()
    expect(log).to_contain_text("6 * 7 = 42")
    expect(log).to_contain_text("6 * 8 = 48")
    expect(log.get_by_text("calculator")).to_have_count(2)
    log.get_by_text("calculator").first.click()
    expect(log.get_by_label("Arguments").first).to_contain_text("6 * 7")
    assert violations(page) == []
    before = page.url
    log.get_by_role("article").nth(1).get_by_role("button", name="Try again").click()
    expect(page).not_to_have_url(before)
    expect(log).to_contain_text("6 * 7 = 42")
    expect(log.get_by_role("article").nth(1)).to_contain_text("6 * 8 = 48")
    expect(log.get_by_role("article")).to_have_count(2)
    expect(log.get_by_text("calculator")).to_have_count(2)


def test_a_call_that_waits_is_decided_here(open_page: Open, agent: Agent) -> None:
    careful = {"calculator": {"approval": "always"}}
    name = agent(model="builtin:extractive", tools=["calculator"], tool_policies=careful)
    page = open_page("chat/")
    begin(page, name, "What is 6 * 7?")
    log = page.get_by_role("log")
    expect(log.get_by_label("Arguments")).to_contain_text("6 * 7")
    page.reload()
    log.get_by_role("button", name="Deny").click()
    expect(log.get_by_text("denied").first).to_be_visible()
    expect(log.get_by_role("button", name="Deny")).to_be_hidden()
    expect(log.get_by_role("link", name="Timeline")).to_be_visible()


def test_a_client_tool_is_answered_here(open_page: Open, agent: Agent, model: HeldModel) -> None:
    name = agent(model="openai:stub-client", client_tools=[ORDER_STATUS])
    page = open_page("chat/")
    begin(page, name, question := unique("where"))
    log = page.get_by_role("log")
    expect(log).to_contain_text("waiting for its result")
    expect(log.get_by_role("button", name="Submit result")).to_be_disabled()
    log.get_by_role("textbox", name="Result of the call").fill("no such order")
    log.get_by_role("button", name="Report failure").click()
    expect(log).to_contain_text("answers with this fixed text")
    expect(log.locator("summary")).to_contain_text("order_statusfailed")
    results = [message["content"] for message in model.asked(question)[-1]["messages"] if message["role"] == "tool"]
    assert "no such order" in results[0]


def test_a_file_is_attached_and_cited(open_page: Open, agent: Agent) -> None:
    name = agent(model="builtin:extractive")
    page = open_page("chat/")
    page.get_by_role("combobox", name="Agent").select_option(label=name)
    text = b"# Harbour\n\nThe harbour master of Skarholm is Ingrid Solvang.\n"
    page.locator("input[type=file]").set_input_files({"name": "notes.md", "mimeType": "text/markdown", "buffer": text})
    expect(page.get_by_label("Attached")).to_contain_text("notes.md")
    page.get_by_role("textbox", name="Message").fill("Who is the harbour master?")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.keyboard.press("Enter")
    log = page.get_by_role("log")
    expect(log).to_contain_text("Ingrid Solvang")
    log.get_by_role("list", name="Sources").get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text("The harbour master of Skarholm")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.reload()
    expect(log.locator(".question")).to_contain_text("notes.md")
    before = page.url
    log.get_by_role("button", name="Try again").click()
    expect(page).not_to_have_url(before)
    expect(log).to_contain_text("Ingrid Solvang")
    expect(log.locator(".question")).to_contain_text("notes.md")
    log.get_by_role("button", name="Show text").click()
    expect(log.get_by_label("Text of notes.md")).to_contain_text("Harbour")


def test_what_others_begin_in_the_session_appears_by_itself(open_page: Open, http: httpx.Client) -> None:
    session = http.post("/sessions/", json=configuration(model="builtin:extractive")).json()["session_id"]
    page = open_page(f"chat/{session}/")
    expect(page.get_by_text("No messages yet")).to_be_visible()
    http.post(f"/runtime/{session}/execute/", json={"content": "From elsewhere"})
    expect(page.get_by_role("log")).to_contain_text("From elsewhere")


LONG = "\n\n".join(f"Paragraph {n}, with **bold** words and a list:\n\n- one\n- two\n- three" for n in range(12))
OBSERVE = """() => {
  globalThis.moved = [];
  const known = new Map();
  const inner = document.querySelector(".log > div");
  const note = (each, place) => {
    if (known.has(each) && known.get(each) !== place) moved.push([each.outerHTML.slice(0, 80), known.get(each), place]);
    known.set(each, place);
  };
  const topOf = (each) => Math.round(each.getBoundingClientRect().top);
  const look = () => {
    for (const each of inner.querySelectorAll("article, .question, .tool-card, .markdown > *")) {
      note(each, topOf(each) - topOf(inner));
    }
    for (const each of document.querySelectorAll(".talk-head, .log, .composer")) note(each, topOf(each));
    requestAnimationFrame(look);
  };
  look();
}"""
"""Looks in every frame whether something that was there is elsewhere in the conversation."""


@pytest.mark.slow(covered_by="test_an_answer_goes_on_after_a_reload_in_the_middle_of_it")
def test_nothing_jumps_while_text_streams(open_page: Open, agent: Agent, model: HeldModel) -> None:
    name = agent(model="openai:stub-tool-echo-halt-slow-1500", tools=["calculator"])
    page = open_page("chat/")
    begin(page, name, "short")
    ends = page.get_by_role("log").get_by_role("link", name="Timeline")
    expect(ends).to_have_count(1)
    with model.held():
        say(page, LONG)
        expect(page.get_by_role("article")).to_have_count(2)
        expect(page.get_by_role("textbox", name="Message")).to_have_value("")
        page.evaluate(OBSERVE)
    expect(ends).to_have_count(2)
    expect(page.get_by_role("log")).to_contain_text("Paragraph 11")
    assert page.evaluate("moved") == []


def test_an_answer_goes_on_after_a_reload_in_the_middle_of_it(open_page: Open, agent: Agent, model: HeldModel) -> None:
    name = agent(model="openai:stub-echo-halt-slow-1500")
    page = open_page("chat/")
    with model.held():
        begin(page, name, LONG)
        reply = page.get_by_role("log").get_by_role("article").locator(".markdown")
        expect(reply).to_contain_text("Paragraph 1,")
        expect(page.locator("article[aria-busy=true]")).to_be_visible()
        page.reload()
        expect(page.locator("article[aria-busy=true]")).to_be_visible()
    expect(page.locator("article[aria-busy=false]")).to_be_visible()
    expect(reply).to_have_count(1)
    expect(reply.locator("> p")).to_have_text([re.compile(f"Paragraph {n},") for n in range(12)])


def test_it_fits_a_narrow_screen_in_both_looks(open_page: Open, agent: Agent) -> None:
    name = agent(model="builtin:extractive", tools=["calculator"])
    page = open_page("chat/", viewport={"width": 360, "height": 740})
    begin(page, name, "What is 6 * 7?")
    expect(page.get_by_role("log")).to_contain_text("42")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations_in_both_looks(page) == []

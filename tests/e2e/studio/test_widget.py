"""The chat of a connection in somebody else's page, which forbids what a page can forbid."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.api import configuration, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import ROOT, RunningStack
from tests.servers.model_stub import TEXT
from tests.support.browser import page_of_its_own, violations
from tests.support.web_page import WebPage

EXAMPLE = ROOT / "examples/widget"
ORDER_STATUS = {
    "name": "order_status",
    "description": "Looks up an order of the visitor.",
    "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}},
}
Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def site() -> Iterator[WebPage]:
    with WebPage().serving() as page:
        yield page


@pytest.fixture
def visit(browser: Browser, site: WebPage, stack: RunningStack, http: httpx.Client) -> Iterator[Visit]:
    """Opens the example's page, with a connection to an agent that its origin may use."""
    with ExitStack() as pages:

        def visit(
            *,
            model: str = "builtin:extractive",
            host: str = "localhost",
            tag: str = "",
            allowed: tuple[str, ...] = (),
            scopes: list[str] | None = None,
            viewport: dict[str, int] | None = None,  # Of a telephone.
            **fields: Any,
        ) -> Page:
            agent = http.post("/agent/", json=configuration(model, **fields)).json()
            wanted = {"agent_id": agent["id"], "allowed_origins": [f"http://localhost:{site.port}"], "scopes": scopes}
            made = http.post("/connections/", json=wanted)
            assert made.status_code == 201, made.text
            key = made.json()["connection_key"]
            html = (EXAMPLE / "index.html").read_text().replace("http://127.0.0.1:8080", stack.base_url)
            site.files["index.html"] = html.replace('"pub_…"', f'"{key}" {tag}')
            for name in ("page.js", "page.css"):
                site.files[name] = (EXAMPLE / name).read_text()
            context = {} if viewport is None else {"viewport": viewport, "has_touch": True, "is_mobile": True}
            page = pages.enter_context(page_of_its_own(browser, allowed=allowed, **context))
            page.goto(f"http://{host}:{site.port}/")
            return page

        yield visit


def say(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send").click()


def test_a_visitor_talks_and_goes_on_after_a_reload(visit: Visit) -> None:
    page = visit(model="builtin:extractive", tools=["calculator"])
    page.get_by_role("button", name="Chat").click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("Ask about your crossing.")
    say(page, "What is 6 * 7?")
    expect(log).to_contain_text("6 * 7 = 42")
    expect(log).not_to_contain_text("calculator")
    assert violations(page) == []
    page.reload()
    page.get_by_role("button", name="Chat").click()
    expect(log).to_contain_text("6 * 7 = 42")
    say(page, "What is 6 * 8?")
    expect(log).to_contain_text("6 * 8 = 48")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Chat")).to_be_focused()
    page.get_by_role("button", name="Ask about an order").click()
    page.get_by_role("button", name="Start over").click()
    expect(log.get_by_role("article")).to_have_count(0)


def test_a_turn_goes_on_after_a_reload_and_can_be_stopped(visit: Visit, model: HeldModel) -> None:
    page = visit(model="openai:stub-hold", tag='data-open data-theme="dark" data-position="left"')
    with model.held():
        say(page, "wait")
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        page.reload()
        expect(page.get_by_role("log")).to_contain_text("Working")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("log")).to_contain_text("stopped")
    assert violations(page) == []


def test_the_page_answers_client_tools(visit: Visit, model: HeldModel) -> None:
    page = visit(model="openai:stub-client", client_tools=[ORDER_STATUS])
    page.get_by_role("button", name="Chat").click()
    say(page, question := unique("where"))
    expect(page.get_by_role("log")).to_contain_text("answers with this fixed text")
    expect(page.get_by_role("log")).not_to_contain_text("order_status")
    results = [message["content"] for message in model.asked(question)[-1]["messages"] if message["role"] == "tool"]
    assert "shipped" in results[0]


def test_an_approval_is_not_for_visitors(visit: Visit) -> None:
    page = visit(tools=["calculator"], tool_policies={"calculator": {"approval": "always"}})
    page.get_by_role("button", name="Chat").click()
    say(page, "What is 6 * 7?")
    expect(page.get_by_role("log")).to_contain_text("Waiting for approval")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)


def test_a_file_is_attached(visit: Visit) -> None:
    page = visit()
    page.get_by_role("button", name="Chat").click()
    text = b"# Harbour\n\nThe harbour master of Skarholm is Ingrid Solvang.\n"
    notes = {"name": "notes.md", "mimeType": "text/markdown", "buffer": text}
    page.get_by_label("Files", exact=True).set_input_files(notes)
    expect(page.get_by_label("Attached")).to_contain_text("notes.md")
    page.get_by_role("textbox", name="Message").fill("Who is the harbour master?")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.keyboard.press("Enter")
    expect(page.get_by_role("log")).to_contain_text("Ingrid Solvang")
    expect(page.get_by_text("1 source")).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Chat").click()
    expect(page.get_by_role("log")).to_contain_text("📎 notes.md")


def test_files_are_offered_where_the_connection_allows_them(visit: Visit) -> None:
    page = visit(tag="data-open")
    expect(page.get_by_role("button", name="Attach files")).to_be_visible()
    talking = ["sessions:read", "sessions:write", "runtime:execute"]
    narrow = {"width": 360, "height": 640}
    page = visit(tag='data-open data-theme="dark"', scopes=talking, viewport=narrow)
    say(page, "hello")
    expect(page.get_by_role("log").get_by_role("article")).to_be_visible()
    expect(page.get_by_role("button", name="Attach files")).to_be_hidden()
    field = page.get_by_role("textbox", name="Message")
    # Telephones zoom in on smaller ones.
    assert field.evaluate("(field) => parseFloat(getComputedStyle(field).fontSize)") >= 16
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []


def test_the_chat_waits_for_a_gateway_that_is_away(visit: Visit) -> None:
    page = visit(allowed=("ERR_INTERNET_DISCONNECTED",))
    chat = page.get_by_role("button", name="Chat")
    expect(chat).to_be_visible()
    page.context.set_offline(True)
    chat.click()
    expect(page.get_by_role("alert")).to_contain_text("Retrying")
    page.context.set_offline(False)
    expect(page.get_by_role("alert")).to_be_hidden()
    say(page, "hello")
    expect(page.get_by_role("log").get_by_role("article")).to_be_visible()


@pytest.mark.crash("gateway")
@pytest.mark.slow
def test_a_turn_goes_on_when_the_gateway_was_killed(visit: Visit, model: HeldModel, breakable: RunningStack) -> None:
    page = visit(model="openai:stub-hold", tag="data-open", allowed=("CORS", "ERR_"))
    with model.held():
        say(page, "wait")
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        with breakable.nobody_restarts():
            pid = breakable.kill("gateway")
            expect(page.get_by_text("Connection lost")).to_be_visible()
        breakable.wait_replaced("gateway", pid)
    log = page.get_by_role("log")
    expect(log.locator(".reply > .markdown")).to_have_text(TEXT)
    expect(log.get_by_role("article")).to_have_count(1)
    expect(page.get_by_role("alert")).to_be_hidden()


def test_what_a_model_writes_is_text(visit: Visit) -> None:
    page = visit(model="openai:stub-echo")
    page.get_by_role("button", name="Chat").click()
    say(page, "**bold** <img src=x onerror=\"document.title='hacked'\"> [x](javascript:alert(1))")
    log = page.get_by_role("log")
    expect(log.locator("strong")).to_have_text("bold")
    expect(log.locator(".markdown")).to_contain_text("<img src=x")
    assert log.locator("img, a").count() == 0
    assert page.title() == "Skarholm Line"


def test_a_page_that_is_not_allowed_is_told_so(visit: Visit) -> None:
    page = visit(host="127.0.0.1", allowed=("CORS",))
    page.get_by_role("button", name="Chat").click()
    expect(page.get_by_role("alert")).to_contain_text(f"http://127.0.0.1:{page.url.split(':')[2].strip('/')}")
    expect(page.get_by_role("alert")).to_contain_text("doesn't allow the origin")

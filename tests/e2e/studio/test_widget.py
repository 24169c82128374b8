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


def test_a_page_that_is_not_allowed_is_told_so(visit: Visit) -> None:
    page = visit(host="127.0.0.1", allowed=("CORS",))
    page.get_by_role("button", name="Chat").click()
    expect(page.get_by_role("alert")).to_contain_text(f"http://127.0.0.1:{page.url.split(':')[2].strip('/')}")
    expect(page.get_by_role("alert")).to_contain_text("doesn't allow the origin")

"""The overview, and the page of operators."""

import re

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.api import configuration, unique
from tests.e2e.conftest import Caller, make_caller
from tests.e2e.dead_letters import put_letter_now
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations, violations_in_both_looks


def begin(http: httpx.Client, content: str, **fields: object) -> str:
    """Lets an agent of the given configuration work on a message; returns the session."""
    session = http.post("/sessions/", json=configuration(**fields)).json()["session_id"]  # type: ignore[arg-type]
    sent = http.post(f"/runtime/{session}/execute/", json={"content": content}, headers={"prefer": "respond-async"})
    assert sent.status_code == 202, sent.text
    return str(session)


def test_what_happens_is_shown_while_it_happens(open_page: Open, http: httpx.Client, model: HeldModel) -> None:
    name = unique("Desk")
    page = open_page()
    expect(page.get_by_role("img", name="Turns per minute")).to_be_visible()
    expect(page.get_by_role("img", name="Response time")).to_be_visible()
    with model.held():
        begin(http, "wait", name=name, model="openai:stub-hold")
        row = page.get_by_role("region", name="In progress").get_by_role("listitem").filter(has_text=name)
        expect(row).to_contain_text("running")
    expect(row).to_be_hidden()
    begin(http, "hello", name=name, model="openai:stub-error-400")
    failed = page.get_by_role("region", name="Recent failures").get_by_role("listitem").filter(has_text=name)
    expect(failed).to_be_visible()
    failed.get_by_role("link", name="Timeline").click()
    expect(page.get_by_role("row").filter(has_text="turn.failed")).to_be_visible()


def test_an_approval_is_given_on_the_overview(open_page: Open, elsewhere: httpx.Client, mallory: Caller) -> None:
    page = open_page(key=mallory.secret)
    careful = {"calculator": {"approval": "always"}}
    number = int(unique("")[-6:], 16)
    begin(elsewhere, f"What is {number} * 7?", model="builtin:extractive", tools=["calculator"], tool_policies=careful)
    card = page.get_by_role("region", name="calculator is waiting").filter(has_text=str(number))
    card.get_by_role("button", name="Approve").click()
    expect(card).to_be_hidden()


HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


@pytest.fixture
def company_id(http: httpx.Client) -> str:
    return str(http.get("/me/").json()["company_id"])


def row_of(page: Page, label: str) -> Locator:
    return page.get_by_role("row").filter(has_text=label)


def test_a_letter_is_looked_at_and_replayed(open_page: Open, stack: RunningStack, company_id: str) -> None:
    label = unique("letter")
    letter = put_letter_now(stack.kafka, company_id, label, reason=f"ValueError('{HOSTILE}')", note=HOSTILE)
    page = open_page(f"operators/?correlation_id={label}")
    expect(page.get_by_role("table", name="Replicas").get_by_role("row").filter(has_text="ready")).not_to_have_count(0)
    expect(page.get_by_role("table", name="Consumer lag")).to_contain_text("timeline-log")
    row = row_of(page, label)
    expect(row).to_contain_text(HOSTILE[:40])
    expect(row).to_contain_text("not replayed")

    row.get_by_role("button", name="Details").press("Enter")
    dialog = page.get_by_role("dialog", name="Dead-lettered message")
    expect(dialog.get_by_role("region", name="Payload")).to_contain_text("onerror")
    expect(dialog.get_by_role("region", name="Headers")).to_contain_text("not shown")
    assert "signed-identity" not in dialog.inner_text()
    assert violations(page) == []
    dialog.get_by_role("button", name="Replay").click()
    confirmation = page.get_by_role("dialog", name="Replay this message?")
    confirmation.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status").filter(has_text="to registry-events")).to_contain_text(letter)
    expect(row.get_by_role("button", name="Replay")).to_be_disabled()
    assert page.title() != "taken"

    page.get_by_label("State").select_option(label="not replayed")
    expect(page.get_by_text("No dead-lettered messages.")).to_be_visible()
    page.get_by_label("State").select_option(label="all")
    row.get_by_role("link", name=label).click()
    expect(page).to_have_url(re.compile(f"/timeline/\\?correlation_id={label}"))
    expect(page.get_by_role("row").filter(has_text="agent.deleted").first).to_be_visible()


def test_a_company_sees_services_in_short_and_its_own_letters(
    open_page: Open, stack: RunningStack, mallory: Caller, company_id: str
) -> None:
    own, others = unique("own"), unique("others")
    put_letter_now(stack.kafka, mallory.company_id, own)
    put_letter_now(stack.kafka, company_id, others)
    page = open_page("operators/", key=mallory.secret, viewport={"width": 360, "height": 800})
    expect(page.get_by_role("table", name="Services")).to_contain_text("1 of 1")
    expect(row_of(page, own)).to_be_visible()
    expect(page.get_by_text(others)).to_have_count(0)
    expect(page.get_by_role("heading", name="Consumer lag")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations_in_both_looks(page) == []


def test_the_page_is_for_keys_that_may_see_it(open_page: Open, stack: RunningStack, own_company: str) -> None:
    operator = open_page()
    expect(operator.get_by_role("navigation").get_by_role("link", name="Operators")).to_be_visible()
    caller = make_caller(stack, own_company, unique("reader"), frozenset({"agents:read"}))
    page = open_page(key=caller.secret)
    expect(page.get_by_role("navigation").get_by_role("link", name="Agents")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Operators")).to_have_count(0)

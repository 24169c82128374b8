"""The overview: what runs, waits and has failed, live, and approvals that are given there."""

import httpx
from playwright.sync_api import expect

from tests.e2e.api import configuration, unique
from tests.e2e.conftest import Caller
from tests.e2e.held_model import HeldModel
from tests.e2e.studio.conftest import Open


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

"""The usage page: what turns took, by day and by model, in both looks and on a narrow screen."""

import httpx
import pytest
from playwright.sync_api import expect

from tests.e2e.api import configuration, unique
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations


def test_a_budget_is_made_and_deleted(open_page: Open, http: httpx.Client) -> None:
    name = unique("All agents")
    page = open_page("usage/")
    page.get_by_role("button", name="New budget").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Description").fill(name)
    dialog.get_by_label("Limit").fill("250")
    dialog.get_by_role("button", name="Create").click()
    row = page.get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text("cost 250 a month")
    assert violations(page) == []
    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_be_hidden()
    assert name not in http.get("/budgets/", params={"limit": 100}).text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_usage_is_shown_by_model(open_page: Open, http: httpx.Client, scheme: str) -> None:
    model = f"openai:stub-{unique()}"
    session = http.post("/sessions/", json=configuration(model)).json()["session_id"]
    assert http.post(f"/runtime/{session}/execute/", json={"content": "hello"}).status_code == 200
    page = open_page("usage/", viewport={"width": 390, "height": 800}, color_scheme=scheme)
    expect(page.get_by_role("img", name="Turns per day")).to_be_visible()
    page.get_by_label("By", exact=True).select_option(label="Model")
    row = page.get_by_role("row").filter(has_text=model)
    expect(row).to_contain_text("42")
    expect(row).to_contain_text("1 unpriced")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []

"""The usage page: what turns took, by day and by model, in both looks and on a narrow screen."""

import httpx
import pytest
from playwright.sync_api import expect

from tests.e2e.api import configuration, unique
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations


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

"""The usage page: what turns took, by day and by model, in both looks and on a narrow screen."""

import httpx
from playwright.sync_api import Route, expect

from tests.e2e.api import configuration, unique
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations, violations_in_both_looks
from tests.support.waiting import wait_until


def test_budgets_are_made_changed_and_deleted(open_page: Open, http: httpx.Client) -> None:
    name = unique("All agents")
    page = open_page("usage/")
    page.get_by_role("button", name="New budget").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Description").fill(name)
    dialog.get_by_label("Limit", exact=True).fill("250")
    dialog.get_by_role("button", name="Create").click()
    row = page.get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text("the whole company")
    expect(row).to_contain_text("cost 250 a month")
    assert violations(page) == []
    row.get_by_role("button", name="Change").click()
    dialog.get_by_label("Limit on").select_option("tokens")
    dialog.get_by_label("Limit", exact=True).fill("1000000")
    dialog.get_by_label("Warn at").fill("")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("1,000,000 tokens a month")
    stored = next(each for each in http.get("/budgets/").json()["budgets"] if each["description"] == name)
    assert (stored["cost"], stored["warning_percent"], stored["key_id"], stored["user_id"]) == (None, None, None, None)
    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_be_hidden()
    assert name not in http.get("/budgets/", params={"limit": 100}).text


MUCH = {
    "turns": 1_234_567,
    "input_tokens": 12_345_678_901,
    "output_tokens": 1_234_567_890,
    "seconds": 9_876_543.21,
    "cost": "25370.622155",
    "unpriced_turns": 0,
}


def test_large_figures_stay_in_their_cards(open_page: Open) -> None:
    page = open_page("keys/")

    def much(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "totals": MUCH})

    page.route("**/api/v1/usage/**", much)
    page.goto(page.url.replace("keys/", "usage/"))
    expect(page.get_by_text("12.35B")).to_be_visible()
    leaving = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"
    for width in (360, 768, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.locator(".tile").evaluate_all(leaving) == [], width


def test_usage_is_shown_by_model(open_page: Open, http: httpx.Client) -> None:
    model = f"openai:stub-{unique()}"
    session = http.post("/sessions/", json=configuration(model)).json()["session_id"]
    assert http.post(f"/runtime/{session}/execute/", json={"content": "hello"}).status_code == 200
    wait_until(lambda: model in http.get("/usage/", params={"group_by": "model"}).text)
    page = open_page("usage/", viewport={"width": 390, "height": 800})
    expect(page.get_by_role("img", name="Turns per day")).to_be_visible()
    page.get_by_label("By", exact=True).select_option(label="Model")
    row = page.get_by_role("row").filter(has_text=model)
    expect(row).to_contain_text("42")
    expect(row).to_contain_text("1 unpriced")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations_in_both_looks(page) == []

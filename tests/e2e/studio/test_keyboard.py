"""The studio by keyboard alone: every step is a key, and what is pressed next has the focus."""

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.e2e.api import configuration, unique
from tests.e2e.running_stack import RunningStack
from tests.e2e.studio.conftest import Open

MOST_STEPS = 150


def reach(page: Page, wanted: Locator) -> None:
    """Goes on by the tabulator until ``wanted`` has the focus."""
    expect(wanted).to_be_visible()
    for _ in range(MOST_STEPS):
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} is not reached")


def press(page: Page, wanted: Locator, key: str = "Enter") -> None:
    reach(page, wanted)
    page.keyboard.press(key)


def choose(page: Page, among: Locator, wanted: str) -> None:
    """Goes from option to option: letters that come too slowly would each begin another word."""
    reach(page, among)
    page.keyboard.press("Home")
    for _ in among.locator("option").all():
        if among.locator("option:checked").inner_text() == wanted:
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"{wanted} is not among them")


def link(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation").get_by_role("link", name=name, exact=True)


def test_from_sign_in_to_an_approval_and_its_timeline(open_page: Open, http: httpx.Client, stack: RunningStack) -> None:
    name = unique("Keys")
    careful = {"calculator": {"approval": "always"}}
    given = configuration(model="builtin:extractive", tools=["calculator"], tool_policies=careful)
    assert http.post("/agent/", json={**given, "name": name}).status_code == 201
    page = open_page(key=None)
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(stack.api_key)
    page.keyboard.press("Enter")
    press(page, link(page, "Chat"))
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    agents = page.get_by_role("combobox", name="Agent")
    expect(agents).to_contain_text(name)
    choose(page, agents, name)
    reach(page, page.get_by_role("textbox", name="Message"))
    page.keyboard.type("What is 6 * 7?")
    page.keyboard.press("Enter")
    log = page.get_by_role("log")
    press(page, log.get_by_role("button", name="Approve"))
    expect(log).to_contain_text("6 * 7 = 42")
    press(page, log.get_by_role("link", name="Timeline"))

    tree = page.get_by_role("treeitem")
    expect(page.get_by_role("row").filter(has_text="turn.completed")).to_be_visible()
    reach(page, tree.first)
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    details = page.get_by_role("complementary", name="Details")
    expect(details).to_be_visible()
    page.keyboard.press("Home")
    expect(tree.first).to_be_focused()
    expect(tree.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(details).to_be_hidden()
    press(page, page.get_by_role("row").first)
    title = details.get_by_role("heading", level=2)
    expect(title).to_have_text("turn.started")
    expect(page.get_by_role("row").first).to_be_focused()
    page.keyboard.press("End")
    expect(title).to_have_text("turn.completed")
    reach(page, page.get_by_role("searchbox", name="Find in events"))
    page.keyboard.type("approve")
    expect(page.get_by_role("row")).to_have_count(1)

"""The way into the studio and out of it."""

import httpx
from playwright.sync_api import Browser, Locator, expect

from cli.connection import Connection
from tests.e2e.running_stack import RunningStack
from tests.e2e.studio.conftest import Open
from tests.support.browser import page_of_its_own, violations


def test_the_base_address_leads_to_the_sign_in_form(open_page: Open, stack: RunningStack) -> None:
    page = open_page(key=None)
    page.goto(stack.base_url)
    expect(page).to_have_url(f"{stack.base_url}/studio/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert violations(page) == []


def test_a_session_survives_a_reload_and_ends_with_the_last_tab(open_page: Open, stack: RunningStack) -> None:
    page = open_page()
    page.reload()
    expect(page.get_by_role("navigation")).to_be_visible()
    with page.context.new_page() as other:
        other.goto(f"{stack.base_url}/studio/keys/")
        expect(other.get_by_role("heading", level=1)).to_have_text("Keys")
        page.goto("about:blank")
        other.reload()
        expect(other.get_by_role("heading", level=1)).to_have_text("Keys")
        other.goto("about:blank")
        page.goto(f"{stack.base_url}/studio/")
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        page.evaluate("sessionStorage.clear()")
        page.reload()
        expect(page.get_by_label("API key")).to_be_visible()


def test_signing_out_ends_every_tab(open_page: Open, stack: RunningStack) -> None:
    page = open_page()
    with page.context.new_page() as other:
        other.goto(f"{stack.base_url}/studio/")
        other.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("alert")).to_contain_text("signed out")


def test_a_telephone_does_not_zoom_in_on_fields(browser: Browser, stack: RunningStack) -> None:
    with page_of_its_own(browser, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True) as page:
        page.goto(f"{stack.base_url}/studio/agents/new/")
        page.get_by_label("API key").fill(stack.api_key)
        sizes = [size_of(page.get_by_label("API key"))]
        page.get_by_role("button", name="Sign in").click()
        sizes.append(size_of(page.get_by_label("Configuration (YAML)")))
        assert min(sizes) >= 16


def size_of(field: Locator) -> float:
    size: float = field.evaluate("(field) => parseFloat(getComputedStyle(field).fontSize)")
    return size


def test_a_link_signs_in_once_and_its_key_ends_with_the_session(
    open_page: Open, stack: RunningStack, http: httpx.Client
) -> None:
    before = keys_of_links(http)
    link = Connection(stack.base_url, stack.api_key).studio_link()
    page = open_page(key=None)
    page.goto(link)
    expect(page.get_by_role("navigation")).to_be_visible()
    assert "token" not in page.url
    [made] = keys_of_links(http) - before
    again = open_page(key=None)
    again.goto(link)
    expect(again.get_by_role("alert")).to_contain_text("already been used")
    with page.expect_popup() as opened:
        page.evaluate("open(location.href)")
    duplicate = opened.value
    expect(duplicate.get_by_role("navigation")).to_be_visible()
    with page.expect_response(lambda reply: reply.request.method == "DELETE") as revoked:
        page.get_by_role("button", name="Sign out").click()
    assert revoked.value.status == 204
    assert made not in keys_of_links(http)
    expect(duplicate.get_by_role("alert")).to_contain_text("signed out")
    duplicate.close()


def keys_of_links(http: httpx.Client) -> set[str]:
    """Keys that sign-in links made and that still work."""
    keys = http.get("/api-keys/", params={"limit": 200}).json()["api_keys"]
    return {key["id"] for key in keys if "link" in key["name"] and key["revoked_at"] is None}


def test_a_key_that_is_revoked_ends_the_session(open_page: Open, http: httpx.Client) -> None:
    made = http.post("/api-keys/", json={"name": "to be revoked"}).json()
    page = open_page(key=made["secret"])
    assert http.delete(f"/api-keys/{made['id']}/").status_code == 204
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("API key")).to_be_visible()


def test_the_navigation_is_behind_a_button_where_it_is_narrow(open_page: Open) -> None:
    page = open_page(viewport={"width": 390, "height": 800})
    link = page.get_by_role("navigation").get_by_role("link", name="Overview")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(link).to_be_visible()
    page.locator(".account summary").click()
    panel = page.locator(".account-panel")
    expect(panel.get_by_text("Limit", exact=True)).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

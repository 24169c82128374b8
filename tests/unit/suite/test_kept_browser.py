"""The browser that tests share: the next test meets nothing that one broke or left behind."""

from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from playwright.sync_api import Error, Page

from tests.support.browser import KeptBrowser
from tests.support.web_page import WebPage


@pytest.fixture(scope="module")
def kept() -> Iterator[KeptBrowser]:
    with closing(KeptBrowser()) as kept:
        yield kept


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    page = WebPage()
    page.files["index.html"] = "<!doctype html><title>a page</title>"
    page.files["health/live"] = "alive"
    with page.serving():
        yield f"http://127.0.0.1:{page.port}/"


def used(kept: KeptBrowser, address: str) -> Page:
    """A page that a test has used and given back."""
    with kept.page() as page:
        page.goto(address)
        page.evaluate("localStorage.setItem('key', 'of a test')")
    return page


def test_pages_are_used_again_with_nothing_stored(kept: KeptBrowser, address: str) -> None:
    first = used(kept, address)
    with kept.page() as page:
        assert page is first
        page.goto(address)
        assert page.evaluate("localStorage.length") == 0


def test_popups_that_were_left_open_end_with_what_they_stored(kept: KeptBrowser, address: str) -> None:
    with kept.page() as outer, kept.page() as page:
        outer.goto(address)
        page.goto(address)
        with page.expect_popup() as opened:
            page.evaluate("open(location.href)")
    assert opened.value.is_closed()
    with kept.page() as page:
        assert page.context.pages == [page]


def fail(kept: KeptBrowser, address: str) -> None:
    with kept.page() as page:
        page.goto(address)
        page.evaluate("localStorage.setItem('key', 'of a test')")
        with page.expect_event("pageerror"):
            page.evaluate("setTimeout(() => { throw Error('broken') })")


def test_after_a_failure_everything_is_new(kept: KeptBrowser, address: str) -> None:
    left = used(kept, address)
    with pytest.raises(AssertionError, match="broken"):
        fail(kept, address)
    assert left.is_closed()
    with kept.page() as page:
        page.goto(address)
        assert page.evaluate("localStorage.length") == 0


def test_a_browser_that_crashed_is_started_anew(kept: KeptBrowser, address: str) -> None:
    crashed = kept.open()
    with suppress(Error), kept.page() as page:
        page.goto(address)
        crashed.new_browser_cdp_session().send("Browser.crash")
    assert not crashed.is_connected()
    used(kept, address)
    assert kept.open() is not crashed

"""Chromium under the control of tests, and what they look at in a page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urljoin

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

Scheme = Literal["light", "dark"]

AXE = Path(__file__).parent / "axe" / "axe.min.js"
# The shell draws the same pages in two thirds of the time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# The only limit of what is waited for in a page. It only bounds failures: a stalled machine must not look like one.
_TIMEOUT_MS = 120_000
_VIEWPORT: Final[ViewportSize] = {"width": 1280, "height": 720}
expect.set_options(timeout=_TIMEOUT_MS)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A headless Chromium. Skips the test where there is none.

    Only where nothing asynchronous runs: Playwright keeps an event loop running meanwhile.
    """
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        program = os.environ.get("AES_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
        if program is None and not own.exists():
            pytest.skip("no Chromium is installed (apt-get install chromium-headless-shell)")
        # Root has no sandbox, and containers have little shared memory.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        try:
            browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=_TIMEOUT_MS)
        except Error as problem:
            pytest.skip(f"Chromium does not start: {problem.message.splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


class KeptBrowser:
    """A browser that stays from test to test, and its pages: each new one is a process that loads everything anew.

    Each page has a context of its own: tabs of one context share who is signed in.
    """

    def __init__(self) -> None:
        self._end = ExitStack()
        self._browser: Browser | None = None
        self._unused: list[Page] = []

    def open(self) -> Browser:
        """Starts it at first, and anew when it crashed."""
        if self._browser is not None and not self._browser.is_connected():
            self.close()
        if self._browser is None:
            self._browser = self._end.enter_context(running_browser())
        return self._browser

    @contextmanager
    def page(self, *, viewport: ViewportSize = _VIEWPORT, color_scheme: Scheme = "light") -> Iterator[Page]:
        """A watched page that may have been used before; nothing is left in it but what the browser's cache keeps."""
        browser = self.open()
        page = self._unused.pop() if self._unused else _new_context(browser).new_page()
        # Chromium draws a page that is behind another one once a second, and Playwright waits for frames.
        page.bring_to_front()
        with ExitStack() as unless_it_can_be_used_again:
            unless_it_can_be_used_again.callback(_close, page.context)
            page.set_viewport_size(viewport)
            page.emulate_media(color_scheme=color_scheme)
            with watched(page):
                yield page
            with suppress(Error):
                page.unroute_all()
                # On a page of the same address that runs no script: the application writes when one leaves it.
                page.goto(urljoin(page.url, "/health/live"))
                page.evaluate("[sessionStorage, localStorage].forEach((each) => each.clear())")
                # A popup that a failed test has left is signed in.
                if len(page.context.pages) == 1:
                    self._unused.append(page)
                    unless_it_can_be_used_again.pop_all()

    def close(self) -> None:
        self._unused.clear()
        self._browser = None
        self._end.close()


kept: Final = KeptBrowser()


@pytest.fixture(scope="module")
def browser() -> Browser:
    return kept.open()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Closes the browser before a test that does without: it might be an asynchronous one."""
    try:
        return (yield)
    finally:
        if "browser" not in getattr(nextitem, "fixturenames", ()):
            kept.close()


def _close(context: BrowserContext) -> None:
    """With all its pages, and what they stored."""
    with suppress(Error):
        context.close()


def _new_context(browser: Browser, **options: Any) -> BrowserContext:
    context = browser.new_context(locale="en-GB", reduced_motion="reduce", **options)
    context.set_default_timeout(_TIMEOUT_MS)
    return context


@contextmanager
def page_of_its_own(browser: Browser, *, allowed: tuple[str, ...] = (), **options: Any) -> Iterator[Page]:
    """A watched page in a context of its own."""
    with _new_context(browser, **options) as context, watched(context.new_page(), allowed=allowed) as page:
        yield page


@contextmanager
def watched(page: Page, *, allowed: tuple[str, ...] = ()) -> Iterator[Page]:
    """Fails at the end when a script failed or the page's policy forbade something."""
    problems: list[str] = []

    def note_failure(error: Error) -> None:
        problems.append(str(error))

    def note_message(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(message.text)

    page.on("pageerror", note_failure)
    page.on("console", note_message)
    yield page
    page.remove_listener("pageerror", note_failure)
    page.remove_listener("console", note_message)
    # Answers with an error status are told by the page itself.
    expected = ("Failed to load resource", *allowed)
    unexpected = [each for each in problems if not any(text in each for text in expected)]
    assert not unexpected, unexpected


def violations(page: Page) -> list[str]:
    """Findings of axe that are serious or critical, with their elements."""
    # Colours of what has just appeared are those of a fade until the next frame but one.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    # Not as a script element: the page's policy would refuse it.
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


# The browser tells its page of another look by a way of its own, which what a test evaluates may overtake.
_HAS_LOOK = """(scheme) => new Promise((done) => {
  const look = () => (matchMedia(`(prefers-color-scheme: ${scheme})`).matches ? done() : requestAnimationFrame(look));
  look();
})"""


def violations_in_both_looks(page: Page) -> list[str]:
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_HAS_LOOK, scheme)
        found += [f"{scheme}: {each}" for each in violations(page)]
    return found

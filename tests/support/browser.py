"""Chromium under the control of tests, and what they look at in a page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

AXE = Path(__file__).parent / "axe" / "axe.min.js"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_TIMEOUT_MS = 20_000
expect.set_options(timeout=_TIMEOUT_MS)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A headless Chromium. Skips the test where there is none.

    Only for modules without asynchronous tests: Playwright keeps an event loop running meanwhile.
    """
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        program = os.environ.get("AES_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
        if program is None and not own.exists():
            pytest.skip("no Chromium is installed (apt-get install chromium)")
        # Root has no sandbox, and containers have little shared memory.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        try:
            browser = playwright.chromium.launch(executable_path=program, args=arguments)
        except Error as problem:
            pytest.skip(f"Chromium does not start: {problem.message.splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched_page(browser: Browser, *, allowed: tuple[str, ...] = (), **context: Any) -> Iterator[Page]:
    """A page in a context of its own. Fails when a script failed or the page's policy forbade something."""
    with browser.new_context(locale="en-GB", reduced_motion="reduce", **context) as opened:
        opened.set_default_timeout(_TIMEOUT_MS)
        page = opened.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        yield page
        # Answers with an error status are told by the page itself.
        expected = ("Failed to load resource", *allowed)
        unexpected = [each for each in problems if not any(text in each for text in expected)]
        assert not unexpected, unexpected


def violations(page: Page) -> list[str]:
    """Findings of axe that are serious or critical, with their elements."""
    # Not as a script element: the page's policy would refuse it.
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]

"""The studio in a browser, against the embedded stack."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.conftest import Caller
from tests.e2e.running_stack import RunningStack
from tests.support.browser import browser as browser
from tests.support.browser import kept
from tests.support.browser import pytest_runtest_teardown as pytest_runtest_teardown

Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, stack: RunningStack) -> Iterator[Open]:
    """Opens an address below `/studio/`; signed in by a key unless it is None."""
    with ExitStack() as pages:

        def open_page(path: str = "", *, key: str | None = stack.api_key, **options: Any) -> Page:
            page = pages.enter_context(kept.page(**options))
            page.goto(f"{stack.base_url}/studio/{path}")
            if key is not None:
                page.get_by_label("API key").fill(key)
                page.get_by_role("button", name="Sign in").click()
                page.get_by_role("button", name="Sign out").wait_for()
            return page

        yield open_page


@pytest.fixture
def http(stack: RunningStack) -> Iterator[httpx.Client]:
    """The public API with the development company's key."""
    with _client(stack, stack.api_key) as client:
        yield client


@pytest.fixture
def elsewhere(stack: RunningStack, mallory: Caller) -> Iterator[httpx.Client]:
    """The public API with Mallory's key, for pages that show the first of what a company has: hers has little."""
    with _client(stack, mallory.secret) as client:
        yield client


def _client(stack: RunningStack, key: str) -> httpx.Client:
    return httpx.Client(base_url=f"{stack.base_url}/api/v1", headers={"x-api-key": key}, timeout=150, trust_env=False)

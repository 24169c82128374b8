"""Modules of the studio in Chromium, without any service."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from services.gateway.entrypoints.http.studio.assets import load, vendored
from tests.support.browser import browser as browser
from tests.support.browser import page_of_its_own
from tests.support.browser import pytest_runtest_teardown as pytest_runtest_teardown

Run = Callable[..., Any]
_ADDRESS = "http://studio.test"


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with page_of_its_own(browser) as page:
        page.route(f"{_ADDRESS}/**", _serve)
        page.goto(f"{_ADDRESS}/")
        yield page


@pytest.fixture
def run(page: Page) -> Run:
    """Evaluates an expression over a module's exports, as `m`, and over `given`."""

    def run(module: str, expression: str, given: Any = None) -> Any:
        # As text: Playwright takes a value of thousands of members apart one by one.
        read = "const m = await import(path), given = JSON.parse(text)"
        body = f"async ([path, text]) => {{ {read}; return ({expression}); }}"
        return page.evaluate(body, [f"/{module}", json.dumps(given)])

    return run


def _serve(route: Route) -> None:
    path = route.request.url.removeprefix(f"{_ADDRESS}/")
    asset = load().assets.get(path)
    if asset is None:
        names = {name: f"/vendor/{file}" for package in vendored() for name, file in package["imports"].items()}
        imports = f'<script type="importmap">{json.dumps({"imports": names})}</script>'
        route.fulfill(body=f"<!doctype html><title>tests</title>{imports}<body></body>", content_type="text/html")
    else:
        route.fulfill(body=asset.content, content_type=asset.media_type)

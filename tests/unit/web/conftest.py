"""Modules of the studio in Chromium, without any service."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.support.browser import browser as browser
from tests.support.browser import page_of_its_own
from tests.support.browser import pytest_runtest_teardown as pytest_runtest_teardown
from tests.support.waiting import WITHIN
from web.assets import load, vendored

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


_WORLD = """
  const requests = [];
  const streams = [];
  const { fetch, setTimeout, clearTimeout } = window;
  const real = { fetch, setTimeout, clearTimeout, now: Date.now };
  const began = real.now();
  let hidden = false;
  // What a test adds to the time without letting anything happen meanwhile.
  let passed = 0;
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  // Time passes a little with each turn of the event loop: a machine that stalls makes nothing late.
  let elapsed = 0;
  let isOver = false;
  const timers = new Map();
  let lastTimer = 1e9;
  window.setTimeout = (act, pause = 0, ...given) => {
    timers.set((lastTimer += 1), { at: elapsed + Number(pause), act: () => act(...given) });
    return lastTimer;
  };
  window.clearTimeout = (timer) => timers.delete(timer) || real.clearTimeout.call(window, timer);
  Date.now = () => began + elapsed + passed;
  const turn = () => new Promise((resolve) => real.setTimeout.call(window, resolve));
  const passTime = async () => {
    for (let now = elapsed; !isOver; ) {
      await turn();
      const [next] = [...timers].filter(([, { at }]) => at <= now).sort(([, one], [, other]) => one.at - other.at);
      if (next) {
        const [timer, { at, act }] = next;
        timers.delete(timer);
        elapsed = Math.max(elapsed, at);
        try {
          act();
        } catch (problem) {
          reportError(problem);
        }
      } else {
        elapsed = now;
        now += 100;
      }
    }
  };
  passTime();
  const until = async (wanted) => {
    for (const end = real.now() + within; !wanted(); await turn()) {
      if (real.now() > end) throw new Error(`it never came: ${wanted} ${JSON.stringify(requests)}`);
    }
  };
  /** Lets this much time pass: what is due meanwhile is done. */
  const elapse = (pause) => new Promise((resolve) => window.setTimeout(resolve, pause));
  const look = (next) => {
    hidden = next;
    document.dispatchEvent(new Event("visibilitychange"));
  };
  /** Answers with a stream that stays open; `write` adds to it. */
  const stream = (signal, headers = {}) => {
    let control;
    const body = new ReadableStream({ start: (given) => (control = given) });
    const each = { write: (text) => control.enqueue(new TextEncoder().encode(text)), ended: false };
    each.fail = () => {
      if (each.ended) return;
      each.ended = true;
      control.error(new DOMException("ended", "AbortError"));
    };
    signal.addEventListener("abort", each.fail);
    streams.push(each);
    return new Response(body, { headers });
  };
  const serve = (answer) => {
    window.fetch = async (address, { method, headers = {}, signal }) => {
      const { pathname, searchParams } = new URL(address, location.href);
      const [path, query] = [pathname.replace("/api/v1", ""), Object.fromEntries(searchParams)];
      const request = { method, path, query, lastId: headers["last-event-id"] ?? null };
      requests.push(request);
      return answer(request, signal);
    };
  };
  const restore = () => {
    isOver = true;
    Object.assign(window, { fetch, setTimeout, clearTimeout });
    Date.now = real.now;
    delete document.hidden;
  };
"""
"""A service that is made of functions, a tab that can be out of sight, and a clock that the test moves."""


def in_world(body: str) -> str:
    """A body, in a function that has the names above."""
    within = f"const within = {1000 * WITHIN};"
    return f"await (async () => {{ {within} {_WORLD} try {{ {body} }} finally {{ restore(); }} }})()"


_DRAWN = """
  const { render, h } = await import("preact");
  const { session } = await import("/api/client.js");
  const signIn = (...scopes) => session.set({ state: "in", me: { scopes }, problem: "" });
  sessionStorage.clear();
  const box = document.createElement("div");
  document.body.append(box);
  const draw = (component, properties = {}) => render(h(component, properties), box);
  const show = (segments, query = "") => draw(m.default, { segments, query: new URLSearchParams(query) });
  const button = (text) => [...box.querySelectorAll("button")].find((each) => each.textContent === text);
  const end = (found) => {
    render(null, box);
    box.remove();
    sessionStorage.clear();
    history.replaceState(null, "", "/");
    session.set({ state: "out", me: null, problem: "" });
    return found;
  };
"""
"""A place in which a test draws components, or a page by `show`, of a person that it signs in."""


def drawn(body: str) -> str:
    """A body that has these names, too; `end` gives back what was found, and leaves nothing behind."""
    return in_world(_DRAWN + body)

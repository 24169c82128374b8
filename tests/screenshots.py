"""Screenshots of the studio's main pages, with sample data, for the documentation.

    python -m tests.screenshots

starts an embedded stack of its own (or uses the one at ``AES_E2E_HOME``), makes the samples by the public API and
writes ``docs/images/*.webp``.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.e2e.running_stack import ROOT, RunningStack, environment_of, temporary_home
from tests.support.browser import page_of_its_own, running_browser
from tests.support.waiting import wait_until
from tests.support.web_page import WebPage

IMAGES = ROOT / "docs/images"
_SIZE: Any = {"width": 1280, "height": 800}
_QUALITY = 80
_PAINTED = """() => Promise.all([
  document.fonts.ready,
  ...document.getAnimations()
    .filter(({ effect }) => effect.getComputedTiming().endTime !== Infinity)
    .map(({ finished }) => finished.catch(() => null)),
])"""
_NO_MODEL = "http://127.0.0.1:9/v1"
_QUESTIONS = (
    "May I take a dog on board?", "What does a bicycle cost?", "What is 3 * 12.50 + 2 * 6.25?",
    "When does the last ferry leave in winter?", "What is (18.40 - 15%) * 4?",
)  # fmt: skip


@dataclass(frozen=True)
class Samples:
    chat: str
    analyst: str
    turn: str
    widget_key: str


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with temporary_home() as home, WebPage().serving() as site, running_browser() as browser:
        stack = RunningStack(home, environment_of(home, _NO_MODEL))
        stack.up()
        stack.wait_ready()
        try:
            samples = make_samples(stack, site)
            shoot(browser, stack, samples, site)
        finally:
            if (home / "owner.json").exists():
                stack.down()


def make_samples(stack: RunningStack, site: WebPage) -> Samples:
    headers = {"x-api-key": stack.api_key}
    with httpx.Client(base_url=f"{stack.base_url}/api/v1", headers=headers, timeout=150, trust_env=False) as http:
        base = _knowledge_base(http)
        desk = _agent(http, "assistant", agent_type="react_agent", tools=["calculator"], knowledge_bases=[base])
        cashier = _agent(http, "cashier")
        analyst = _agent(http, "analyst", knowledge_bases=[base])
        chat, turn = _conversation(http, desk, _QUESTIONS)
        for _ in range(4):
            _conversation(http, desk, _QUESTIONS[1:4])
        _conversation(http, cashier, ["What is 4 * 18.40?"])
        wanted = {"agent_id": desk, "allowed_origins": [f"http://localhost:{site.port}"]}
        connection = _posted(http, "/connections/", wanted)
        return Samples(chat, analyst, turn, connection["connection_key"])


def shoot(browser: Browser, stack: RunningStack, samples: Samples, site: WebPage) -> None:
    pages: tuple[tuple[str, str, Callable[[Page], None]], ...] = (
        ("overview", "", lambda page: expect(page.get_by_role("img", name="Turns per minute")).to_be_visible()),
        ("chat", f"chat/{samples.chat}/", _conversation_is_shown),
        ("timeline", f"timeline/?turn_id={samples.turn}", _turn_is_selected),
        ("agents", f"agents/{samples.analyst}/", lambda page: expect(page.get_by_text("Valid.")).to_be_visible()),
        ("knowledge", "knowledge/", lambda page: expect(page.get_by_text("completed").first).to_be_visible()),
        ("usage", "usage/", lambda page: expect(page.get_by_role("img", name="Turns per day")).to_be_visible()),
        (
            "operators",
            "operators/",
            lambda page: expect(page.get_by_role("table", name="Consumer lag")).to_be_visible(),
        ),
    )
    for name, path, ready in pages:
        scheme: Literal["light", "dark"] = "dark" if name == "timeline" else "light"
        _save(browser, stack, name, path, ready, viewport=_SIZE, color_scheme=scheme)
    _save_widget(browser, stack, samples, site)


def _save(
    browser: Browser, stack: RunningStack, name: str, path: str, ready: Callable[[Page], None], **context: Any
) -> None:
    with page_of_its_own(browser, **context) as page:
        page.goto(f"{stack.base_url}/studio/")
        page.get_by_label("API key").fill(stack.api_key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Sign out").wait_for()
        page.goto(f"{stack.base_url}/studio/{path}")
        ready(page)
        _capture(page, name)


def _save_widget(browser: Browser, stack: RunningStack, samples: Samples, site: WebPage) -> None:
    example = ROOT / "examples/widget"
    site.files |= {file.name: file.read_text() for file in example.iterdir()}
    page_text = site.files["index.html"].replace("http://127.0.0.1:8080", stack.base_url)
    site.files["index.html"] = page_text.replace("pub_…", samples.widget_key)
    with page_of_its_own(browser, viewport={"width": 900, "height": 660}) as page:
        page.goto(f"http://localhost:{site.port}/")
        page.get_by_role("button", name="Chat").click()
        page.get_by_role("textbox", name="Message").fill("What is 3 * 12.50 + 2 * 6.25?")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("log")).to_contain_text("= 50")
        _capture(page, "widget")


def _conversation_is_shown(page: Page) -> None:
    expect(page.get_by_role("article")).to_have_count(len(_QUESTIONS))
    expect(page.get_by_role("article").last.get_by_role("link", name="Timeline")).to_be_visible()


def _turn_is_selected(page: Page) -> None:
    page.get_by_role("treeitem", name="calculator").click()
    expect(page.get_by_role("complementary")).to_be_visible()


def _capture(page: Page, name: str) -> None:
    # Fonts and transitions; what goes on for ever, such as a spinner, is not waited for.
    page.evaluate(_PAINTED)
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": _QUALITY})
    target = IMAGES / f"{name}.webp"
    target.write_bytes(base64.b64decode(shot["data"]))
    print(f"{target.relative_to(ROOT)}  {target.stat().st_size:,} bytes")


def _knowledge_base(http: httpx.Client) -> str:
    documents = sorted((ROOT / "examples/documents").iterdir())
    ids = [http.post("/files/", files={"file": (each.name, each.read_bytes())}).json()["id"] for each in documents]
    base = _posted(http, "/knowledge-bases/", {"name": "Skarholm Line", "file_ids": ids})
    wait_until(
        lambda: http.get(f"/knowledge-bases/{base['id']}/").json()["status"] == "completed",
        "the documents are searchable",
        pause=0.3,
    )
    return str(base["id"])


def _agent(http: httpx.Client, name: str, **fields: Any) -> str:
    configuration = yaml.safe_load(Path(ROOT / f"examples/agents/{name}.yaml").read_text())
    return str(_posted(http, "/agent/", {**configuration, **fields})["id"])


def _conversation(http: httpx.Client, agent: str, questions: tuple[str, ...] | list[str]) -> tuple[str, str]:
    """The session, and its last turn."""
    session, turn = _posted(http, "/sessions/", {"agent_id": agent})["session_id"], ""
    for question in questions:
        answer = http.post(f"/runtime/{session}/execute/", json={"content": question})
        assert answer.status_code in (200, 202), answer.text
        turn = answer.json()["turn_id"]
    return session, turn


def _posted(http: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = http.post(path, json=body)
    assert answer.status_code in (200, 201), answer.text
    made: dict[str, Any] = answer.json()
    return made


if __name__ == "__main__":
    main()

"""Every page: no finding of axe in both looks where it is narrow, and what others wrote is text."""

import json

import httpx
import pytest
from playwright.sync_api import Page, Request, Response, expect

from tests.e2e.api import configuration, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations_in_both_looks
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow(covered_by="e2e/studio/test_chat.py::test_it_fits_a_narrow_screen_in_both_looks")
NARROW = {"width": 360, "height": 740}
HOSTILE = (
    "<img src=x onerror=\"document.title='hacked'\">",
    "<script>document.title='hacked'</script>",
    "<svg/onload=document.title='hacked'>",
    '"><iframe srcdoc="<script>parent.document.title=\'hacked\'</script>">',
    "[link](javascript:document.title='hacked') ![x](data:image/svg+xml,<svg/onload=alert(1)>)",
    "<a href='javascript:document.title=`hacked`'>x</a><style>*{display:none}</style>",
    "{{constructor.constructor('document.title=1')()}}${document.title=1}</textarea></pre>",
    "\u202egnp.exe\u0007\ufeff‮ \U0001f4a3",
)
WATCH = "addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective}`))"


# In which a page that has got an answer shows it, and asks for what follows from it.
FRAMES_AT_REST = 10


def pages_of(page: Page) -> list[str]:
    """The addresses of the navigation."""
    links = page.get_by_role("navigation").get_by_role("link")
    paths: list[str] = links.evaluate_all("(all) => all.map((link) => link.getAttribute('href').slice(8))")
    return paths


def go(page: Page, path: str) -> None:
    """As the browser's buttons do, without loading the page again; returns when all that it asks for is answered."""
    asking: set[Request] = set()

    def asks(request: Request) -> None:
        asking.add(request)

    def failed(request: Request) -> None:
        asking.discard(request)

    def answered(response: Response) -> None:
        # Of a stream that is its beginning.
        asking.discard(response.request)

    # Functions of our own, since Playwright can't keep methods of built-in types.
    listeners = {"request": asks, "response": answered, "requestfailed": failed}
    for name, listener in listeners.items():
        page.on(name, listener)
    page.evaluate("(path) => history.pushState(null, '', `/studio/${path}`)", path)
    page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    frames_at_rest = 0

    def at_rest() -> bool:
        nonlocal frames_at_rest
        page.evaluate("() => new Promise(requestAnimationFrame)")
        frames_at_rest = 0 if asking else frames_at_rest + 1
        return frames_at_rest == FRAMES_AT_REST

    wait_until(at_rest, f"answers to what {path} asks for", pause=0.0)
    for name, listener in listeners.items():
        page.remove_listener(name, listener)


def test_every_page_is_accessible_and_fits_a_narrow_screen(open_page: Open, http: httpx.Client) -> None:
    session = http.post("/sessions/", json=configuration()).json()["session_id"]
    assert http.post(f"/runtime/{session}/execute/", json={"content": "hello"}).status_code == 200
    page = open_page(viewport=NARROW)
    for path in [
        *pages_of(page),
        f"timeline/?session_id={session}",
        f"chat/{session}/",
        "agents/new/",
        "knowledge/new/",
    ]:
        go(page, path)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        assert violations_in_both_looks(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_what_others_wrote_is_text_on_every_page(open_page: Open, http: httpx.Client, model: HeldModel) -> None:
    mark = unique()
    made = [make_hostile(http, f"{text} {mark}") for text in HOSTILE]
    session, agent, toolset = made[0]
    page = open_page("keys/", viewport=NARROW)
    page.evaluate(WATCH)
    shown = {
        "agents/": HOSTILE,
        f"agents/{agent}/": HOSTILE[:1],
        f"chat/{session}/": HOSTILE[:1],
        f"timeline/?session_id={session}": (),
        "timeline/": (),
        "knowledge/": HOSTILE,
        "files/": HOSTILE[:1],
        "keys/": HOSTILE,
        "usage/": HOSTILE[:1],
        "webhooks/": HOSTILE[:1],
        "connections/": HOSTILE,
        "toolsets/": HOSTILE,
        f"toolsets/{toolset}/": HOSTILE[:1],
        "secrets/": (),
        "operators/": (),
        "": (),
    }
    for path, texts in shown.items():
        go(page, path)
        for text in texts:
            expect(page.locator("main")).to_contain_text(text.split("\u0007")[0].strip()[:40])
        strange = (
            "main :is(script, iframe, style, object, embed), main img:not([src^='blob:']), main a[href^='javascript']"
        )
        assert page.locator(strange).count() == 0, path
        assert "hacked" not in page.title(), path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    for path, button in {"keys/": "Revoke", "connections/": "Delete"}.items():
        go(page, path)
        page.get_by_role("button", name=button).first.click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(HOSTILE[-1][:5])
        assert dialog.locator(":is(img, script, iframe, style)").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        page.keyboard.press("Escape")
    # Where it is narrow, details lie over the rows.
    page.set_viewport_size({"width": 1280, "height": 800})
    go(page, f"timeline/?session_id={session}")
    for row in page.get_by_role("row").all():
        row.click()
        assert page.locator("aside :is(img, script, iframe, style)").count() == 0
    go(page, f"chat/{session}/")
    for card in page.locator("main details").all():
        card.locator("summary").click()
    assert page.locator("main .log :is(img:not([src^='blob:']), script, iframe)").count() == 0


def make_hostile(http: httpx.Client, text: str) -> tuple[str, str, str]:
    """Things of every kind that are named like that, and a turn that says it everywhere; session, agent and toolset."""
    careful = {**configuration(model="openai:stub-ordered", tools=["http_get"]), "name": text[:100]}
    agent = posted(http, "/agent/", careful)["id"]
    file = http.post("/files/", files={"file": (text.replace("/", "_")[:80] + ".txt", text.encode())})
    posted(
        http,
        "/knowledge-bases/",
        {"name": text[:100], "file_ids": [file.json()["id"]] if file.status_code == 201 else []},
    )
    posted(http, "/collections/", {"name": text[:100], "description": text})
    posted(http, "/api-keys/", {"name": text[:100], "scopes": ["agents:read"]})
    posted(http, "/webhooks/", {"url": "http://127.0.0.77:9/", "description": text, "event_types": ["budget.*"]})
    posted(http, "/budgets/", {"period": "day", "tokens": 10**15, "description": text})
    posted(http, "/connections/", {"agent_id": agent, "name": text[:100], "allowed_origins": ["https://a.example"]})
    fare = {"name": "fare", "description": text, "method": "POST", "url": "http://127.0.0.77:9/"}
    toolset = {"name": unique("t" * 26), "type": "http", "description": text, "tools": [fare]}
    posted(http, "/toolsets/", toolset)
    assert http.put(f"/secrets/{unique('S' * 50).replace('-', '_').upper()}/", json={"value": "hidden"}).is_success
    session = posted(http, "/sessions/", {"agent_id": agent})["session_id"]
    order = {"tool": "http_get", "arguments": {"url": f"http://localhost:1/{text}"}}
    http.post(f"/runtime/{session}/execute/", json={"content": json.dumps(order)})
    http.post(f"/runtime/{session}/execute/", json={"content": text})
    return session, agent, str(toolset["name"])


def posted(http: httpx.Client, path: str, body: dict[str, object]) -> dict[str, str]:
    answer = http.post(path, json=body)
    assert answer.status_code in (200, 201), answer.text
    made: dict[str, str] = answer.json()
    return made

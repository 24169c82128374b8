"""Bad luck and wrong input: what is wrong is said, with a way on, and nothing that was written is lost."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from playwright.sync_api import CDPSession, Page, ViewportSize, expect

from tests.e2e.api import configuration, unique
from tests.e2e.conftest import Caller
from tests.e2e.running_stack import RunningStack
from tests.e2e.studio.conftest import Open

FAST = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
SLOW = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
WIDE: ViewportSize = {"width": 1280, "height": 720}
NARROW: ViewportSize = {"width": 360, "height": 740}
GONE = "00000000-0000-0000-0000-000000000000"


@contextmanager
def slow_network(page: Page) -> Iterator[CDPSession]:
    """Without the browser's cache."""
    cdp = page.context.new_cdp_session(page)
    cdp.send("Network.enable")
    cdp.send("Network.setCacheDisabled", {"cacheDisabled": True})
    cdp.send("Network.emulateNetworkConditions", SLOW)
    try:
        yield cdp
    finally:
        cdp.send("Network.emulateNetworkConditions", FAST)
        cdp.detach()


def test_a_page_is_there_over_a_slow_network_before_the_others_are_fetched(open_page: Open, mallory: Caller) -> None:
    page = open_page("keys/", key=mallory.secret)
    with slow_network(page) as cdp:
        answers: list[str] = []
        cdp.on("Network.responseReceived", lambda event: answers.append(event["response"]["url"]))
        page.reload(wait_until="commit")
        expect(page.get_by_role("status").first).to_contain_text(re.compile("Loading the studio|Signing in"))
        expect(page.get_by_role("row").nth(1)).to_be_visible()
        at = next(place for place, url in enumerate(answers) if "/api-keys/" in url)
        pages = {url.rsplit("/", 1)[1] for url in answers[:at] if "/pages/" in url}
        assert pages <= {"keys.js", "sign_in.js"}


def test_what_is_no_key_is_said_to_be_none(open_page: Open) -> None:
    page = open_page(key=None)
    for key in ("hello", "ключ", "aes_" + "x" * 4000):
        page.reload()
        page.get_by_label("API key").fill(key)
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("Invalid")


def test_a_key_that_ends_while_one_writes_loses_nothing(
    open_page: Open, http: httpx.Client, stack: RunningStack
) -> None:
    made = http.post("/api-keys/", json={"name": unique("short")}).json()
    page = open_page("agents/new/", key=made["secret"])
    editor = page.get_by_label("Configuration (YAML)")
    editor.fill("name: half written")
    assert http.delete(f"/api-keys/{made['id']}/").status_code == 204
    # One key: where the answer comes before the next one, that goes to the field that asks for the key.
    editor.press("!")
    expect(page.get_by_role("alert")).to_contain_text("revoked")
    page.get_by_label("API key").fill(stack.api_key)
    page.keyboard.press("Enter")
    expect(editor).to_have_value("name: half written!")


def test_a_page_that_the_key_may_not_see_says_what_it_needs(open_page: Open, http: httpx.Client) -> None:
    made = http.post("/api-keys/", json={"name": unique("narrow"), "scopes": ["agents:read"]}).json()
    page = open_page("usage/", key=made["secret"])
    expect(page.get_by_role("alert")).to_contain_text("usage:read")
    expect(page.get_by_role("heading", level=1)).to_have_text("Usage")
    page.get_by_role("link", name="Go to the overview").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


NOTHING = {
    f"agents/{GONE}/": "no agent with this ID",
    f"chat/{GONE}/": "Start a new chat",
    f"knowledge/{GONE}/": "no knowledge base",
    f"files/{GONE}/": "no file",
    "toolsets/nobodys/": "no toolset",
    f"webhooks/{GONE}/": "no webhook",
    "agents/%ff/": "",
    "timeline/?type=**": "type must be",
    "nothing/": "no page at this address",
}


def test_an_address_of_nothing_says_so(open_page: Open, stack: RunningStack) -> None:
    page = open_page()
    for path, text in NOTHING.items():
        page.goto(f"{stack.base_url}/studio/{path}")
        expect(page.locator("main")).to_contain_text(text)
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_an_answer_given_elsewhere_is_seen_here(open_page: Open, http: httpx.Client) -> None:
    careful: dict[str, Any] = {"calculator": {"approval": "always"}}
    agent = configuration(model="builtin:extractive", tools=["calculator"], tool_policies=careful)
    session = http.post("/sessions/", json=agent).json()["session_id"]
    http.post(f"/runtime/{session}/execute/", json={"content": "What is 6 * 7?"})
    tabs = [open_page(f"chat/{session}/") for _ in range(2)]
    for tab in tabs:
        expect(tab.get_by_role("button", name="Approve")).to_be_visible()
    tabs[0].get_by_role("button", name="Deny").click()
    for tab in tabs:
        expect(tab.get_by_role("log")).to_contain_text("denied")
        expect(tab.get_by_role("button", name="Approve")).to_be_hidden()


def test_an_approval_that_expires_is_offered_no_longer(
    open_page: Open, elsewhere: httpx.Client, mallory: Caller, stack: RunningStack
) -> None:
    careful: dict[str, Any] = {"calculator": {"approval": "always"}}
    agent = configuration(model="builtin:extractive", tools=["calculator"], tool_policies=careful)
    session = elsewhere.post("/sessions/", json=agent).json()["session_id"]
    turn = elsewhere.post(f"/runtime/{session}/execute/", json={"content": "What is 6 * 7?"}).json()["turn_id"]
    chat, start = open_page(f"chat/{session}/", key=mallory.secret), open_page(key=mallory.secret)
    card = start.get_by_role("region", name="calculator is waiting").filter(has=start.locator(f"a[href*='{turn}']"))
    for offered in (chat, card):
        expect(offered.get_by_role("button", name="Approve")).to_be_visible()
    with psycopg.connect(stack.database("runtime")) as runtime:
        runtime.execute("UPDATE waits SET expires_at = now() WHERE turn_id = %s", [turn])
    expect(chat.get_by_role("log")).to_contain_text("expired")
    for offered in (chat, card):
        expect(offered.get_by_role("button", name="Approve")).to_be_hidden()


def test_a_lost_connection_pushes_nothing_out_of_sight(open_page: Open, http: httpx.Client) -> None:
    session = http.post("/sessions/", json=configuration(model="builtin:extractive")).json()["session_id"]
    page = open_page(f"chat/{session}/")
    field = page.get_by_role("textbox", name="Message")
    field.fill("Is anybody there?")
    page.route("**/api/v1/**", lambda route: route.abort())
    page.keyboard.press("Enter")
    expect(page.get_by_text("Reconnecting")).to_be_visible()
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        expect(page.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight"), size
    page.unroute_all()
    expect(page.get_by_role("log").get_by_role("link", name="Timeline")).to_be_visible()


def test_a_session_outlives_its_agent(open_page: Open, http: httpx.Client) -> None:
    agent = http.post("/agent/", json={**configuration(model="builtin:extractive"), "name": unique("gone")}).json()
    session = http.post("/sessions/", json={"agent_id": agent["id"]}).json()["session_id"]
    page = open_page(f"agents/{agent['id']}/")
    expect(page.get_by_text("Valid.")).to_be_visible()
    assert http.delete(f"/agent/{agent['id']}/").status_code == 204
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").filter(has_text="No agent")).to_be_visible()
    page.goto(page.url.split("agents/")[0] + f"chat/{session}/")
    expect(page.get_by_role("combobox", name="Agent").locator("option:checked")).to_have_text(agent["name"])
    page.get_by_role("textbox", name="Message").fill("hello")
    page.keyboard.press("Enter")
    expect(page.get_by_role("log").get_by_role("link", name="Timeline")).to_be_visible()


def test_files_that_are_refused_say_why(open_page: Open) -> None:
    page = open_page("files/")
    wrong = {
        "program.exe": (b"MZ", "Supported extensions"),
        "empty.txt": (b"", "is empty"),
        "fake.pdf": (b"hello", "content doesn't match"),
    }
    files: Any = [{"name": name, "mimeType": "text/plain", "buffer": content} for name, (content, _) in wrong.items()]
    page.get_by_label("Upload files").set_input_files(files)
    for name, (_, reason) in wrong.items():
        row = page.get_by_role("listitem").filter(has_text=name)
        expect(row).to_contain_text(reason)
        expect(row.get_by_role("button", name="Try again")).to_be_visible()


def test_files_that_no_service_takes_are_not_sent(open_page: Open, tmp_path: Path) -> None:
    huge = _file_of(256 * 1024 * 1024 + 1, tmp_path / "huge.txt")
    page = open_page("files/")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.get_by_label("Upload files").set_input_files(huge)
    expect(page.get_by_role("listitem").filter(has_text="huge.txt")).to_contain_text("larger than 256 MB")
    page.goto(page.url.replace("files/", "chat/"))
    page.locator("input[type=file]").set_input_files(huge)
    expect(page.get_by_label("Attached")).to_contain_text("larger than 256 MB")
    assert sent == []


def _file_of(size: int, path: Path) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.slow(covered_by="unit/web/test_markdown.py::test_a_long_text_is_read_part_by_part")
def test_five_megabytes_of_history_are_read_part_by_part(open_page: Open, http: httpx.Client) -> None:
    session = http.post("/sessions/", json=configuration(model="openai:stub-echo")).json()["session_id"]
    text = "\n\n".join(f"Paragraph {n} with **bold** words, and {'more ' * 70}\n\n- one\n- two" for n in range(100))
    turns = 64
    for number in range(turns):
        reply = http.post(f"/runtime/{session}/execute/", json={"content": f"Message {number}.\n\n{text}"})
        assert reply.status_code == 200
    assert 2 * turns * len(text) > 5_000_000
    page = open_page(f"chat/{session}/")
    shown = page.get_by_role("article")
    expect(shown).to_have_count(30)
    expect(shown.last).to_be_in_viewport()
    expect(page.locator(".markdown.unread")).not_to_have_count(0)
    first = shown.first.locator(".question")
    for count in (60, turns):
        page.get_by_role("button", name="earlier messages").scroll_into_view_if_needed()
        kept = first.element_handle()
        page.get_by_role("button", name="earlier messages").click()
        expect(shown).to_have_count(count)
        inside = (
            "(it) => { const { top, bottom } = it.getBoundingClientRect(); return top < innerHeight && bottom > 0; }"
        )
        assert page.evaluate(inside, kept), "what was read stays in sight"
    # Looking for a text in the whole page would take longer than all that is looked at here.
    expect(shown.first.locator(".question-text")).to_contain_text("Message 0.")
    page.get_by_role("textbox", name="Message").fill("the next one")
    page.keyboard.press("Enter")
    expect(shown).to_have_count(turns + 1)
    expect(shown.last.locator(".markdown")).to_have_text("You said: the next one")
    expect(shown.last).to_be_in_viewport()

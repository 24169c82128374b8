"""The timeline's page: a row for each event, spans over all services, live, with the payload on demand."""

import json
from collections.abc import Callable

import httpx
from playwright.sync_api import Route, expect

from tests.e2e.api import configuration, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations

MANY = 10_000


def session_of(http: httpx.Client, **fields: object) -> str:
    made = http.post("/sessions/", json=configuration(**fields))  # type: ignore[arg-type]
    assert made.status_code == 201, made.text
    return str(made.json()["session_id"])


def execute(http: httpx.Client, session: str, content: str, correlation: str, **headers: str) -> httpx.Response:
    sent = {"x-correlation-id": correlation, **headers}
    return http.post(f"/runtime/{session}/execute/", json={"content": content}, headers=sent)


def test_a_request_is_shown_with_its_events_and_spans(open_page: Open, http: httpx.Client) -> None:
    correlation = unique("trace")
    session = session_of(http, model="builtin:extractive", tools=["calculator"])
    assert execute(http, session, "What is 6 * 7?", correlation).status_code == 200
    page = open_page("timeline/")
    page.get_by_label("Correlation ID").fill(correlation)
    page.keyboard.press("Enter")
    types = ["turn.started", "turn.tool_call.started", "turn.tool_call.completed", "turn.completed"]
    for kind in types:
        row = page.get_by_role("row").filter(has_text=kind)
        expect(row).to_have_count(1)
        expect(row).to_contain_text("runtime")
    expect(page.get_by_role("row")).to_have_count(len(types))
    expect(page.get_by_role("treeitem", name="calculator")).to_be_visible()
    assert correlation in page.url
    page.get_by_role("row").filter(has_text="turn.completed").click()
    expect(page.get_by_role("complementary")).to_contain_text("42")
    assert violations(page) == []
    page.get_by_label("Type", exact=True).fill("turn.tool_call.*")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("Paused")).to_be_visible()


def test_new_rows_come_by_themselves(open_page: Open, http: httpx.Client, model: HeldModel) -> None:
    correlation = unique("live")
    session = session_of(http)
    page = open_page(f"timeline/?correlation_id={correlation}")
    expect(page.get_by_text("No events with this ID yet")).to_be_visible()
    with model.held():
        execute(http, session_of(http, model="openai:stub-hold"), "wait", correlation, prefer="respond-async")
        expect(page.get_by_role("row").filter(has_text="turn.started")).to_be_visible()
        expect(page.get_by_role("treeitem").first).to_contain_text("Turn")
    expect(page.get_by_role("row").filter(has_text="turn.completed")).to_be_visible()
    assert execute(http, session, "again", correlation).status_code == 200
    expect(page.get_by_role("row").filter(has_text="turn.completed")).to_have_count(2)


def test_rows_and_spans_are_reached_by_keyboard(open_page: Open, http: httpx.Client) -> None:
    correlation = unique("keys")
    execute(http, session_of(http), "hello", correlation)
    page = open_page(f"timeline/?correlation_id={correlation}")
    # Rows come as they are written to the timeline.
    expect(page.get_by_role("row").filter(has_text="turn.completed")).to_be_visible()
    first = page.get_by_role("row").first
    first.focus()
    page.keyboard.press("End")
    expect(page.get_by_role("row").last).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary").get_by_role("heading", level=2)).to_have_text("turn.completed")
    turn = page.get_by_role("treeitem").first
    turn.focus()
    page.keyboard.press("ArrowLeft")
    expect(turn).to_have_attribute("aria-expanded", "false")


def _file(number: int) -> dict[str, object]:
    return {
        "id": str(number),
        "position": number,
        "type": "file.uploaded",
        "source": "/aes/ingestion",
        "subject": f"file-{number}",
        "sequence": 1,
        "time": f"2026-05-04T08:{number // 1000:02d}:{number % 60:02d}.000000Z",
        "correlation_id": "c",
        "causation_id": None,
        "data": {"file": {"name": f"{number}.txt", "size": number}},
    }


def _of_a_session(number: int) -> dict[str, object]:
    """One of twenty turns, each of hundreds of tool calls."""
    turn, within = divmod(number - 1, MANY // 20)
    call = {"step": within // 2, "call_id": f"c{within // 2}", "name": "calculator"}
    kind, data = "turn.tool_call.completed", {**call, "output": f"n-{number}"}
    if within == 0:
        kind, data = "turn.started", {"attempt": 1}
    elif within % 2:
        kind, data = "turn.tool_call.started", {**call, "arguments": {"expression": f"n-{number + 1}"}}
    of_turn = {"turn_id": f"t-{turn}", "session_id": "s-1", "subject": f"t-{turn}", "source": "/aes/runtime"}
    return {**_file(number), **of_turn, "type": kind, "data": data}


def test_a_session_of_ten_thousand_events_is_a_small_document(open_page: Open) -> None:
    page = open_page()
    page.route("**/api/v1/events/?*", lambda route: _many(route, _of_a_session))
    page.evaluate("history.replaceState(null, '', '/studio/timeline/?session_id=s-1')")
    page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.get_by_text("10,000 events")).to_be_visible()
    tree = page.get_by_role("tree")
    tree.get_by_role("treeitem").first.focus()
    page.keyboard.press("End")
    expect(tree.get_by_role("treeitem").last).to_be_focused()
    assert page.evaluate("document.querySelectorAll('*').length") < 4_000
    page.get_by_role("searchbox", name="Find in events").fill("n-4321")
    expect(page.get_by_role("row")).to_have_count(2)


def _many(route: Route, event: Callable[[int], dict[str, object]] = _file) -> None:
    """A stream that holds them all, and an end."""
    if "text/event-stream" not in route.request.headers["accept"]:
        route.fulfill(json={"events": [], "has_more": False, "next": 0})
        return
    if "last-event-id" in route.request.headers:
        route.fulfill(status=204)
        return
    events = "".join(f"id: {n}\nevent: any\ndata: {json.dumps(event(n))}\n\n" for n in range(1, MANY + 1))
    route.fulfill(body=events, content_type="text/event-stream")

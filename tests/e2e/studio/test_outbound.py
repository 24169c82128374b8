"""Webhooks and toolsets: what the installation calls, tried from their pages."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.api import unique
from tests.e2e.running_stack import RECEIVERS
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations

HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def gate() -> threading.Event:
    """While it is not set, the target does not answer."""
    gate = threading.Event()
    gate.set()
    return gate


@pytest.fixture(scope="module")
def target(gate: threading.Event) -> Iterator[str]:
    """The address of a server that takes anything and answers with what would be dangerous as HTML."""

    class Target(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            gate.wait()
            body = f"taken {HOSTILE}".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer((RECEIVERS, 0), Target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{RECEIVERS}:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_a_webhook_is_made_tested_and_sends_again(open_page: Open, target: str, gate: threading.Event) -> None:
    address = f"{target}{unique()}"
    page = open_page("webhooks/")
    page.get_by_role("button", name="New webhook").click()
    page.get_by_label("Address").fill(address)
    page.get_by_label("Event types").fill("no.such.event")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("Event types")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Event types").fill("webhook.disabled")
    page.get_by_role("button", name="Add agent.*").click()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("whsec_")).to_be_visible()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("link", name=address).click()
    page.get_by_role("button", name="Send a test").click()
    delivery = page.get_by_role("row").filter(has_text="webhook.test")
    expect(delivery).to_contain_text("delivered")
    expect(delivery).to_contain_text(f"200 taken {HOSTILE}")
    assert "hacked" not in page.title()
    assert violations(page) == []
    gate.clear()
    try:
        delivery.get_by_role("button", name="Redeliver").click()
        expect(delivery).to_contain_text("pending")
    finally:
        gate.set()
    expect(delivery).to_contain_text("delivered")
    page.reload()
    page.get_by_role("button", name="Rotate secret").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    expect(page.get_by_text("whsec_")).to_be_visible()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_text("disabled", exact=True)).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Webhooks")
    expect(page.get_by_role("link", name=address)).to_have_count(0)


def test_a_toolset_is_written_tried_changed_and_deleted(open_page: Open, target: str) -> None:
    name = unique("set").lower()
    text = (
        f"name: {name}\ntype: http\ndescription: Fares {HOSTILE}\ntools:\n  - name: fare\n    method: POST\n"
        f"    url: {target}\n    timeout: 5\n    parameters:\n      type: object\n      required: [crossing, cars]\n"
        "      properties:\n        crossing: {enum: [Kiel-Oslo, Bergen]}\n        cars: {type: integer}\n"
    )
    page = open_page("toolsets/", viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.get_by_role("link", name="New toolset", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    page.get_by_role("link", name="HTTP requests").click()
    editor = page.get_by_label("Configuration (YAML or JSON)")
    editor.fill(text)
    page.get_by_role("button", name="Create").click()
    errors = page.get_by_role("alert").get_by_role("listitem")
    expect(errors).to_contain_text("line 8")
    expect(errors).to_contain_text("timeout")
    editor.fill(text.replace("    timeout: 5\n", ""))
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_text(f"Fares {HOSTILE}")).to_be_visible()
    page.get_by_role("button", name="Try fare").click()
    page.get_by_role("button", name="Call").click()
    expect(page.get_by_label("cars")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("crossing").select_option("Bergen")
    page.get_by_label("cars").fill("2")
    page.get_by_role("button", name="Call").click()
    expect(page.get_by_label("Output")).to_contain_text(f"taken {HOSTILE}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []

    page.get_by_role("button", name="Change").click()
    editor.fill(editor.input_value().replace("name: fare", "name: crossing_fare") + "approval: always\n")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved as version 2.")).to_be_visible()
    expect(page.get_by_text(f"{name}.crossing_fare")).to_be_visible()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("Refreshed: 1 tool in version")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Toolsets")
    expect(page.get_by_role("link", name=name)).to_have_count(0)

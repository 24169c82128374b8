"""Knowledge: files go up, become a knowledge base, and are found and shown in their documents."""

import re

import httpx
from playwright.sync_api import expect

from tests.e2e.api import configuration, unique
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations
from tests.support.office_files import pdf
from tests.support.waiting import wait_until

HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
LONG = "".join(f"Line {number} of the harbour's log.\n" for number in range(400))


def file(name: str, content: str | bytes) -> dict[str, object]:
    body = content if isinstance(content, bytes) else content.encode()
    return {"name": name, "mimeType": "application/octet-stream", "buffer": body}


def test_files_become_a_knowledge_base_that_is_searched(open_page: Open) -> None:
    mark = unique()
    log, broken, base = f"log-{mark}.md", f"broken-{mark}.pdf", f"Harbour {mark}"
    text = f"{LONG}\n# Berths\n\nThe harbour master {HOSTILE} keeps the key to berth nine.\n\n{LONG}"
    page = open_page("knowledge/")
    given = [file(log, text), file(broken, b"%PDF-1.4 this is no document"), file(f"bad-{mark}.exe", b"MZ")]
    page.get_by_label("Upload files").set_input_files(given)
    refused = page.get_by_role("list", name="Uploads").get_by_role("listitem").filter(has_text=f"bad-{mark}")
    expect(refused.get_by_role("alert")).to_contain_text("exe")
    expect(page.get_by_role("link", name=log)).to_be_visible()
    page.get_by_role("checkbox", name=broken).check()
    assert violations(page) == []

    page.get_by_role("button", name="New knowledge base").click()
    expect(page.get_by_role("checkbox", name=broken)).to_be_checked()
    page.get_by_label("Name", exact=True).fill(base)
    page.get_by_role("checkbox", name=log).check()
    page.get_by_text("Settings: engine").click()
    page.get_by_label("Size", exact=True).fill("64")
    page.get_by_label("Overlap", exact=True).fill("64")
    assert violations(page) == []
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert").filter(has_text="smaller than chunk_size")).to_be_visible()
    page.get_by_label("Overlap", exact=True).fill("8")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator(".chip").get_by_text("failed")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=broken)).to_contain_text("damaged")
    page.get_by_role("button", name="Ingest again").click()
    expect(page.get_by_role("row").filter(has_text=broken)).to_be_visible()

    page.get_by_label("Search", exact=True).fill("harbour master of berth nine")
    page.keyboard.press("Enter")
    found = page.get_by_role("listitem").filter(has_text="keeps the key")
    expect(found).to_contain_text(HOSTILE)
    page.reload()
    expect(found.get_by_role("button", name=log)).to_be_visible()
    page.get_by_text("side by side").click()
    for mode in ("hybrid", "semantic", "keyword"):
        expect(page.get_by_label(f"{mode} results").get_by_role("listitem").first).to_be_visible()
    assert violations(page) == []
    found.first.get_by_role("button", name=log).click()
    shown = page.get_by_role("dialog").locator("mark")
    expect(shown).to_contain_text("keeps the key to berth nine")
    expect(shown).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Change").click()
    page.get_by_role("checkbox", name=broken).uncheck()
    page.get_by_role("button", name="Save and ingest").click()
    expect(page.get_by_text("completed", exact=True)).to_be_visible()
    assert "hacked" not in page.title()


def test_a_collection_takes_files_and_they_get_tags(open_page: Open, http: httpx.Client) -> None:
    mark = unique()
    table = f"fares & <b>-{mark}.csv"
    page = open_page("knowledge/", viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.get_by_role("button", name="New collection").click()
    page.get_by_label("Name", exact=True).fill(f"Fares {mark}")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Fares {mark}")
    page.get_by_label("Upload files").set_input_files([file(table, 'crossing,fare\n"Kiel, Oslo",99\n')])
    row = page.get_by_role("row").filter(has_text=mark)
    expect(row).to_be_visible()
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Tags…").click()
    page.get_by_role("textbox", name="Tags").fill(f"{mark}, <i>tag</i>")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("<i>tag</i>")
    expect(row).to_contain_text("fares & ")
    page.get_by_role("button", name="Deactivate").click()
    expect(row).to_contain_text("inactive")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []

    page.goto(f"{page.url.split('/knowledge/')[0]}/files/?tag={mark}")
    row.get_by_role("link").click()
    expect(page.get_by_role("cell", name="Kiel, Oslo")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Files")
    assert http.get("/files/", params={"tag": mark}).json()["total"] == 0


def test_a_document_is_shown_by_its_text(open_page: Open, http: httpx.Client) -> None:
    content = pdf([f"The lighthouse of {unique()} is white."])
    made = http.post("/files/", files={"file": (f"{unique()}.pdf", content)}).json()
    page = open_page(f"files/{made['id']}/")
    expect(page.get_by_role("alert").filter(has_text="been read yet")).to_be_visible()
    collection = http.post("/collections/", json={"name": unique()}).json()["id"]
    http.post(f"/collections/{collection}/files/", json={"file_ids": [made["id"]]})
    wait_until(lambda: http.get(f"/files/{made['id']}/text/").status_code == 200, pause=0.25)
    page.reload()
    expect(page.get_by_label("Text of the document")).to_contain_text("The lighthouse of")
    expect(page.get_by_role("link", name=re.compile("collection|[0-9a-f]{8}")).first).to_be_visible()


def test_what_an_agent_made_is_kept_as_a_file(open_page: Open, http: httpx.Client) -> None:
    mark = unique("made")
    given = configuration(model="builtin:extractive", tools=["table_query", "artifact_create"])
    session = http.post("/sessions/", json=given).json()["session_id"]
    place = f"/sessions/{session}/artifacts/"
    sales = http.post(place, files={"file": ("sales.csv", b"region,sold\nNorth,8\nSouth,4\n")}).json()
    source = {"type": "file", "source": {"artifact_id": sales["artifact_id"]}}
    wanted = {"type": "text", "text": f"How much was sold per region? Save it as {mark}.csv."}
    assert http.post(f"/runtime/{session}/execute/", json={"content": [wanted, source]}).status_code == 200

    page = open_page(f"chat/{session}/")
    # The menu has a link of that name, too.
    page.locator(f"a[href$='files/sessions/{session}/']").click()
    made = page.get_by_role("listitem").filter(has_text=mark)
    made.get_by_role("button", name="Show table").click()
    expect(made.get_by_role("cell", name="North")).to_be_visible()
    assert violations(page) == []
    made.get_by_role("button", name="Copy to company files").click()
    expect(made.get_by_role("link", name="company file")).to_be_visible()
    assert http.get("/files/", params={"name": mark}).json()["total"] == 1
    made.get_by_role("button", name="Remove from company files").click()
    expect(made.get_by_role("button", name="Copy to company files")).to_be_visible()
    with page.expect_download() as taken:
        page.get_by_role("button", name="Download all").click()
    assert taken.value.suggested_filename == "artifacts.zip"

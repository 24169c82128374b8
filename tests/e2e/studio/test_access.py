"""Agents, keys, connections and secrets in the studio."""

import re

import httpx
from playwright.sync_api import expect

from tests.e2e.api import configuration, unique
from tests.e2e.running_stack import RunningStack
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations
from tests.support.waiting import WITHIN

SECRET = re.compile(r"aes_[\w-]{20,}")


def test_a_key_is_made_replaced_and_revoked(open_page: Open, stack: RunningStack) -> None:
    name = unique("<b>key</b>")
    page = open_page("keys/")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Read only").click()
    assert violations(page) == []
    page.get_by_role("button", name="Create").click()
    secret = page.get_by_text(SECRET)
    expect(secret).to_be_visible()
    assert status_with(stack, secret.inner_text()) == 200
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Done").click()
    expect(secret).to_have_count(0)

    row = page.get_by_role("row").filter(has_text=name)
    row.get_by_role("button", name="Rotate").click()
    page.get_by_label("The old one").select_option("60")
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    rotated = page.get_by_text(SECRET).inner_text()
    page.get_by_role("button", name="Done").click()
    expect(row.filter(has_text="being replaced")).to_have_count(1)

    page.reload()
    row.filter(has_text="active").get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row.filter(has_text="revoked")).to_have_count(1)
    assert status_with(stack, rotated) == 401


def status_with(stack: RunningStack, secret: str) -> int:
    url, headers = f"{stack.base_url}/api/v1/me/", {"x-api-key": secret}
    return httpx.get(url, headers=headers, timeout=WITHIN, trust_env=False).status_code


def test_a_connection_is_made_with_its_snippet(open_page: Open, http: httpx.Client, stack: RunningStack) -> None:
    agent = unique("Agent")
    assert http.post("/agent/", json={**configuration(), "name": agent}).status_code == 201
    page = open_page("connections/", viewport={"width": 390, "height": 800})
    page.get_by_role("button", name="New connection").click()
    expect(page.get_by_label("Agent", exact=True)).to_be_focused()
    page.get_by_label("Agent", exact=True).select_option(label=agent)
    page.get_by_label("Allowed origins").fill("example.com")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("Allowed origins")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Allowed origins").fill("https://www.example.com")
    page.get_by_role("button", name="Create").click()
    card = page.get_by_role("listitem").filter(has_text=agent)
    expect(card).to_be_visible()
    made = next(each for each in http.get("/connections/").json()["connections"] if each["name"] == agent)
    snippet = f'<script src="{stack.base_url}/widget.js" data-connection-key="{made["connection_key"]}"></script>'
    expect(card.get_by_label("Widget snippet")).to_have_text(snippet)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    card.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(card).to_have_count(0)


def test_a_secret_is_stored_replaced_and_deleted(open_page: Open, http: httpx.Client) -> None:
    name = unique("STUDIO").replace("-", "_")
    page = open_page("secrets/", color_scheme="dark")
    page.get_by_role("button", name="New secret").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Value").fill("one value")
    page.get_by_role("button", name="Save").click()
    row = page.get_by_role("row").filter(has_text=name)
    expect(row).to_be_visible()
    before = http.get(f"/secrets/{name}/").json()["updated_at"]
    row.get_by_role("button", name="Replace").click()
    page.get_by_label("Value").fill("another value")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert http.get(f"/secrets/{name}/").json()["updated_at"] > before
    assert violations(page) == []
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_an_agent_is_made_and_changed(open_page: Open, http: httpx.Client) -> None:
    name = unique("Agent")
    page = open_page("agents/")
    page.get_by_role("link", name="New agent", exact=True).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_be_focused()
    text = page.get_by_label("Configuration (YAML)")
    text.fill(f"name: {name}\nagent_type: llm\nllm_config:\n  temperature: 9\n")
    errors = page.get_by_role("alert").get_by_role("listitem")
    expect(errors.filter(has_text="agent_type")).to_contain_text("did you mean 'llm_agent'?")
    expect(errors.filter(has_text="llm_config.temperature")).to_contain_text("line 4")
    expect(text).to_have_attribute("aria-invalid", "true")
    text.fill(f"name: {name}\nagent_type: [")
    expect(errors).to_have_count(1)
    expect(errors).to_contain_text("line")
    text.fill(f"name: {name}\nagent_type: llm_agent\nsystem_prompt: Be kind.\n")
    expect(page.get_by_text("Valid.", exact=True)).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved as version 1.0.0")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/agents/[0-9a-f-]{36}/$"))
    expect(heading).to_be_focused()
    assert violations(page) == []
    text.fill(f"name: {name}\nagent_type: llm_agent\n")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(re.compile(r"Saved as version (?!1\.0\.0)"))).to_be_visible()
    page.get_by_role("button", name="1.0.0").click()
    expect(page.get_by_label("Difference")).to_contain_text("- system_prompt: Be kind.")
    agent = next(each for each in http.get("/agent/").json() if each["name"] == name)
    assert agent["system_config"]["system_prompt"] == ""
    page.get_by_role("link", name="All agents").click()
    expect(page.get_by_role("link", name=name)).to_be_visible()


def test_an_agent_gets_tools_is_published_and_deleted(open_page: Open, http: httpx.Client) -> None:
    name = unique("Agent")
    agent = http.post("/agent/", json={**configuration(tools=["calculator"]), "name": name}).json()
    page = open_page(f"agents/{agent['id']}/")
    page.get_by_text("Tools", exact=True).click()
    expect(page.get_by_role("checkbox", name="calculator", exact=True)).to_be_checked()
    page.get_by_role("checkbox", name="current_time", exact=True).check()
    expect(page.get_by_label("Configuration (YAML)")).to_have_value(re.compile(r"- calculator\n  - current_time\n"))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved as version")).to_be_visible()
    page.get_by_role("checkbox", name="Web pages can use it").check()
    page.get_by_label("Allowed origins").fill("https://shop.example")
    page.get_by_role("button", name="Update access").click()
    expect(page.get_by_label("Snippet with the agent's key")).to_contain_text(agent["agent_key"])
    page.get_by_role("button", name="New connection").click()
    page.get_by_role("dialog").get_by_label("Allowed origins").fill("https://shop.example")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("Widget snippet")).to_contain_text("pub_")
    assert violations(page) == []
    stored = http.get(f"/agent/{agent['id']}/").json()
    assert (stored["system_config"]["tools"], stored["is_public"]) == (["calculator", "current_time"], True)
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Agents")
    assert http.get(f"/agent/{agent['id']}/").status_code == 404

"""Agents are made and edited as YAML, with what is wrong said while one types."""

import re

import httpx
from playwright.sync_api import expect

from tests.e2e.api import configuration, unique
from tests.e2e.studio.conftest import Open
from tests.support.browser import violations


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

"""Addresses, variables, paths and scopes in the documents are those that the service has."""

import re
from pathlib import Path

import pytest

from deploy.local.services import PREFERRED_PORTS
from libs.contracts.identity import Scope
from services.gateway.entrypoints.a2a.application import PREFIX as A2A
from services.gateway.entrypoints.ag_ui.application import PREFIX as AG_UI
from services.gateway.entrypoints.door.routes import PREFIX as API
from services.gateway.entrypoints.mcp.application import PREFIX as MCP
from services.gateway.entrypoints.openai.conventions import PREFIX as OPENAI

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "clients" / "python" / "README.md", *(ROOT / "docs").rglob("*.md")]
DOORS = (API, OPENAI, MCP, A2A, AG_UI)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_lead_to_the_gateway(page: Path) -> None:
    text = page.read_text()
    doors = "|".join(door.split("/")[1] for door in DOORS)
    ports = set(re.findall(rf"(?:localhost|127\.0\.0\.1):(\d+)/(?:{doors})\b", text))
    assert ports <= {str(PREFERRED_PORTS["gateway"])}
    assert not re.search(r"\bAES_URL\b", text), "the variable of the clients is AES_BASE_URL"


def test_the_proxy_passes_every_door_on() -> None:
    text = (ROOT / "docs" / "operations" / "containers.md").read_text()
    passed = re.findall(r"location (?:~ )?(\S+) \{[^}]*proxy_pass", text)
    for door in (*DOORS, "/studio"):
        assert any(re.match(pattern, f"{door}/") for pattern in passed), door
    for internal in ("/metrics", "/health/ready", "/internal/x"):
        assert not any(re.match(pattern, internal) for pattern in passed), internal


def test_every_scope_is_documented() -> None:
    named = set(re.findall(r"`([a-z]+:[a-z]+)`", (ROOT / "docs" / "api.md").read_text()))
    assert {scope.value for scope in Scope} <= named

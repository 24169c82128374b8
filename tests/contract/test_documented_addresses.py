"""Addresses, variables, paths and scopes in the documents are those that the service has."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.caller_settings import settings_of
from deploy.local.services import DATABASES, PREFERRED_PORTS
from libs.contracts.identity import Scope
from services.gateway.entrypoints.a2a.application import PREFIX as A2A
from services.gateway.entrypoints.ag_ui.application import PREFIX as AG_UI
from services.gateway.entrypoints.door.routes import PREFIX as API
from services.gateway.entrypoints.mcp.application import PREFIX as MCP
from services.gateway.entrypoints.openai.conventions import PREFIX as OPENAI
from services.gateway.entrypoints.rest.application import openapi_document

ROOT = Path(__file__).parents[2]
ROOMS = ("clients", "deploy", "docs", "examples", "libs", "services", "tests")
PAGES = [ROOT / "README.md", *sorted(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))]
DOORS = (API, OPENAI, MCP, A2A, AG_UI)
OTHER_PORTS = {
    "8081": "the second gateway",
    "29092": "Kafka of Compose",
    "9000": "the object store of Compose",
    "9092": "a Kafka",
    "3000": "Grafana",
    "9090": "Prometheus",
    "4318": "a collector of traces",
    "16686": "Jaeger",
    "8201": "the example toolset",
    "9555": "the example receiver of webhooks",
}
PORTS_OF_A_PAGE = {
    ROOT / "examples" / "widget" / "README.md": ("8000",),
    ROOT / "docs" / "tutorials" / "chat-product.md": ("8000",),
}
# Its paths stand under an address of their own.
OF_OPENAI = ROOT / "docs" / "how-to" / "openai.md"
# Paths of the example toolset, and of every process beside those of the public API.
OTHER_PATHS = re.compile(r"/(tickets|internal|health|metrics)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_lead_to_the_gateway(page: Path) -> None:
    ports = set(re.findall(r"\b(?:localhost|127\.0\.0\.1):(\d+)", page.read_text()))
    assert ports <= {str(PREFERRED_PORTS["gateway"]), *OTHER_PORTS, *PORTS_OF_A_PAGE.get(page, ())}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_variable_is_one_that_is_read(page: Path) -> None:
    """`<SERVICE>` stands for any service, and a name with an underscore at its end for all that begin with it."""
    for variable in re.findall(r"\bAES_[A-Z0-9_<>]+", page.read_text()):
        pattern = variable.replace("<SERVICE>", "[A-Z]+") + (".*" if variable.endswith("_") else "")
        assert any(re.fullmatch(pattern, name) for name in read_variables()), variable


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != OF_OPENAI], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_path_is_one_of_the_public_api(page: Path) -> None:
    for method, path in documented_paths(page.read_text()):
        full = path if path.startswith(API) else f"{API}{path}"
        known = {verb for verb, route in operations() if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), full)}
        assert known >= {method} if method else known, f"{method} {path}"


def test_the_proxy_passes_every_door_on() -> None:
    text = (ROOT / "docs" / "operate" / "containers.md").read_text()
    passed = re.findall(r"location (?:~ )?(\S+) \{[^}]*proxy_pass", text)
    for door in (*DOORS, "/studio"):
        assert any(re.match(pattern, f"{door}/") for pattern in passed), door
    for internal in ("/metrics", "/health/ready", "/internal/x"):
        assert not any(re.match(pattern, internal) for pattern in passed), internal


def test_every_scope_is_documented() -> None:
    named = set(re.findall(r"`([a-z]+:[a-z]+)`", (ROOT / "docs" / "reference" / "access.md").read_text()))
    assert {scope.value for scope in Scope} <= named


def documented_paths(text: str) -> Iterator[tuple[str, str]]:
    """Method and path of what is named in prose, and the path alone of what a command calls."""
    named = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`\s?#]*)", text)
    called = [("", path) for path in re.findall(r"\$AES(/(?:\$\([^)]*\)|[^\s\"')`?;])*)", text)]
    for method, path in (*named, *called):
        if not OTHER_PATHS.match(path):
            yield method, re.sub(r"\$\([^)]*\)|\$\w+", "x", path)


@functools.cache
def operations() -> list[tuple[str, str]]:
    return [(verb.upper(), path) for path, verbs in openapi_document()["paths"].items() for verb in verbs]


@functools.cache
def read_variables() -> frozenset[str]:
    found = {
        str(field.validation_alias or f"{settings.model_config['env_prefix']}{name}".upper())
        for settings in map(settings_of, DATABASES)
        for name, field in settings.model_fields.items()
    }
    # The embedded stack makes the names of its ports.
    found |= {"AES_POSTGRES_PORT", "AES_KAFKA_PORT"}
    sources = [
        file
        for room in ("cli", "clients", "deploy", "examples", "libs", "tests/e2e", "tests/integration", "tests/support")
        for file in (ROOT / room).rglob("*.py")
    ]
    for file in (*sources, ROOT / "aes", ROOT / "docker-compose.yml"):
        found |= set(re.findall(r"\bAES_[A-Z0-9_]+\b", file.read_text()))
    return frozenset(found)

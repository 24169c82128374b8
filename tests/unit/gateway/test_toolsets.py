"""``/toolsets/`` and ``/secrets/``: what is sent on, and that values of secrets go nowhere."""

import base64
import json
from collections.abc import Iterable
from typing import Any

import pytest

from libs.contracts.messages import Event
from libs.contracts.resources.secrets import (
    DeleteSecret,
    PutSecret,
    Secret,
    SecretDeleted,
    SecretStored,
    secret_context,
)
from libs.contracts.resources.toolsets import (
    CreateToolset,
    DeleteToolset,
    RefreshToolset,
    ToolsetCreated,
    ToolsetDeleted,
    ToolsetRefreshed,
    ToolsetUpdated,
    UpdateToolset,
)
from tests.support.gateway import Gateway, Sent, error_of, gateway
from tests.support.webhook_fakes import CIPHER

NOW = "2030-01-01T00:00:00.000000Z"
MCP = {"name": "tickets", "type": "mcp", "url": "https://tickets.example.com/mcp"}
VALUE = "swordfish-4711-of-the-harbour"
SHOWN: dict[str, Any] = {
    "safe_to_repeat": None,
    "approval": None,
    "timeout_seconds": None,
    "retries": None,
    "name": "tickets",
    "description": "",
    "tool_settings": {},
    "version": 1,
    "created_at": NOW,
    "updated_at": NOW,
    "refreshed_at": NOW,
    "warnings": [],
    "type": "mcp",
    "url": MCP["url"],
    "headers": {},
    "allowed_tools": None,
    "tools": [],
}


def upstream(sent: Sent) -> Iterable[Event]:
    """Does everything at once."""
    match sent.command:
        case CreateToolset():
            yield ToolsetCreated(toolset=SHOWN)  # type: ignore[arg-type]
        case UpdateToolset():
            yield ToolsetUpdated(toolset=SHOWN)  # type: ignore[arg-type]
        case RefreshToolset():
            yield ToolsetRefreshed(toolset=SHOWN)  # type: ignore[arg-type]
        case DeleteToolset():
            yield ToolsetDeleted(name="tickets")
        case PutSecret():
            yield SecretStored(secret=Secret(name=sent.command.name, created_at=NOW, updated_at=NOW))
        case DeleteSecret():
            yield SecretDeleted(name="TOKEN")


@pytest.fixture
def opened(public: Gateway) -> Gateway:
    public.bus.upstream = upstream
    return public


async def test_a_toolset_is_made_changed_refreshed_and_deleted(opened: Gateway) -> None:
    made = await opened.client.post("/toolsets/", json=MCP)
    changed = await opened.client.patch("/toolsets/tickets/", json={"timeout_seconds": 5, "headers": None})
    refreshed = await opened.client.post("/toolsets/tickets/refresh/")
    deleted = await opened.client.delete("/toolsets/tickets/")

    assert (made.status_code, made.json(), made.headers["location"]) == (201, SHOWN, "/api/v1/toolsets/tickets/")
    assert [response.status_code for response in (changed, refreshed, deleted)] == [200, 200, 204]
    assert [sent.command for sent in opened.bus.sent] == [
        CreateToolset(toolset=MCP),
        UpdateToolset(name="tickets", changes={"timeout_seconds": 5, "headers": None}),
        RefreshToolset(name="tickets"),
        DeleteToolset(name="tickets"),
    ]


async def test_a_body_that_is_no_toolset_is_refused(opened: Gateway) -> None:
    cases: list[Any] = [
        ({"name": "tickets", "url": "https://x"}, ["type"], None),
        ({**MCP, "type": "soap"}, ["type"], None),
        ({**MCP, "name": "Tickets"}, ["name"], None),
        ({**MCP, "headres": {}}, ["headres"], "did you mean 'headers'?"),
        ({**MCP, "headers": {"a b": "x"}}, ["headers", "a b"], None),
        ({**MCP, "headers": {"A": "x\r\nB: y"}}, ["headers", "A"], None),
        ({**MCP, "url": "ftp://x"}, ["url"], None),
        ({"name": "a", "type": "http", "tools": [{"name": "x", "method": "TRACE", "url": "https://x"}]}, None, None),
    ]
    for body, loc, hint in cases:
        refused = await opened.client.post("/toolsets/", json=body)

        (detail,) = error_of(refused)["details"]
        assert refused.status_code == 422
        assert loc is None or detail["loc"] == loc or (loc == ["type"] and detail["loc"] == [])
        assert hint is None or detail["hint"] == hint
        assert opened.bus.sent == []


async def test_a_document_of_2_mb_is_taken_and_a_larger_one_is_not(opened: Gateway) -> None:
    toolset = {"name": "harbour", "type": "openapi", "document": {"openapi": "3.1.0", "x": "y" * 1_999_000}}

    taken = await opened.client.post("/toolsets/", json=toolset)
    toolset["document"] = {"x": "y" * 2_060_000}
    refused = await opened.client.post("/toolsets/", json=toolset)
    yaml = await opened.client.post(
        "/toolsets/", content=json.dumps({**MCP, "description": "x" * 600_000}), headers={"content-type": "text/yaml"}
    )

    assert [taken.status_code, refused.status_code, yaml.status_code] == [201, 413, 413]


async def test_a_tool_is_tried_over_the_registry(opened: Gateway) -> None:
    path = "/internal/company/toolsets/tickets/tools/find%2Fall/call"
    reply = {"status": "completed", "output": "42", "seconds": 0.1}
    opened.upstreams.answers["POST", "registry", path] = (200, reply)

    tried = await opened.client.post("/toolsets/tickets/tools/find%2Fall/call/", json={"arguments": {"id": 7}})

    assert (tried.status_code, tried.json()) == (200, reply)
    assert opened.upstreams.asked == [("POST", "registry", path, {"arguments": {"id": 7}})]


async def test_a_secret_leaves_the_gateway_encrypted(opened: Gateway) -> None:
    stored = await opened.client.put("/secrets/TOKEN/", json={"value": VALUE}, headers={"Idempotency-Key": "k" * 8})

    assert (stored.status_code, stored.json()) == (200, {"name": "TOKEN", "created_at": NOW, "updated_at": NOW})
    (sent,) = opened.bus.sent
    assert isinstance(sent.command, PutSecret)
    ciphertext = base64.b64decode(sent.command.ciphertext)
    assert CIPHER.decrypt(ciphertext, context=secret_context("company-1", "TOKEN")) == VALUE
    assert VALUE not in sent.command.encode().decode()
    assert opened.idempotency.recorded == {}


async def test_without_a_key_for_secrets_nothing_is_stored() -> None:
    async with gateway(cipher=None) as public:
        refused = await public.client.put("/secrets/TOKEN/", json={"value": VALUE})

    assert refused.status_code == 503
    assert "AES_SECRETS_KEY" in error_of(refused)["message"]
    assert VALUE not in refused.text
    assert public.bus.sent == []


async def test_what_is_wrong_with_a_secret_is_said_without_it(
    opened: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    cases: list[Any] = [
        json.dumps({"value": VALUE + "\n"}),
        json.dumps({"value": VALUE + "ü"}),
        json.dumps({"value": [VALUE]}),
        json.dumps({"value": VALUE * 400}),
        json.dumps({"value": VALUE, "name": VALUE}),
        json.dumps({"secret": VALUE}),
        json.dumps(VALUE),
        json.dumps([VALUE]),
        json.dumps({"value": VALUE})[:-1],
        '{"value": ' + VALUE + "}",
        '{"value": "' + VALUE + '\x01"}',
    ]
    for content in cases:
        headers = {"content-type": "application/json"}
        refused = await opened.client.put("/secrets/TOKEN/", content=content, headers=headers)
        as_yaml = await opened.client.put("/secrets/TOKEN/", content=content, headers={"content-type": "text/yaml"})

        assert refused.status_code in (400, 422)
        assert VALUE not in refused.text
        assert VALUE not in as_yaml.text
        logged = capsys.readouterr()
        assert VALUE not in logged.out + logged.err


async def test_names_of_secrets_have_a_form(opened: Gateway) -> None:
    bad = await opened.client.put("/secrets/9.9/", json={"value": VALUE})

    assert bad.status_code == 422
    assert (await opened.client.get("/secrets/9.9/")).status_code == 404
    assert (await opened.client.delete("/secrets/TOKEN/")).status_code == 204
    assert [sent.command for sent in opened.bus.sent] == [DeleteSecret(name="TOKEN")]

"""Bodies of toolsets: what is wrong with them beyond their types."""

from typing import Any

import pytest

from libs.contracts.resources.toolsets import ConnectedTool, CreateToolsetBody, LeftOutTool
from services.registry.domain.toolset import secret_names, settled
from services.registry.domain.toolset_checks import left_out_warnings, toolset_errors

MCP = {"name": "tickets", "type": "mcp", "url": "https://tickets.example.com/mcp"}
OPENAPI = {"name": "harbour", "type": "openapi", "document_url": "https://harbour.example.com/openapi.json"}
TOOL = {
    "name": "fare",
    "method": "GET",
    "url": "https://fares.example.com/{crossing}",
    "parameters": {"type": "object", "properties": {"crossing": {"type": "string"}, "cars": {"type": "integer"}}},
}


def body(given: dict[str, Any], **changes: Any) -> Any:
    return CreateToolsetBody.model_validate({**given, **changes}, strict=True).root


def http(**changes: Any) -> Any:
    return body({"name": "fares", "type": "http", "tools": [{**TOOL, **changes}]})


def kinds(given: Any, *secrets: str) -> list[tuple[str, list[str | int]]]:
    return [(error.type, error.loc) for error in toolset_errors(given, secrets)]


@pytest.mark.parametrize(
    "given",
    [
        body(MCP, headers={"Authorization": "Bearer ${secret:TOKEN}"}),
        body(OPENAPI, operations=["listBerths"]),
        body(OPENAPI, document_url=None, document={"openapi": "3.1.0"}),
        http(query={"cars": "{cars}", "fixed": 1}),
        http(method="POST", body={"cars": "{cars}", "note": "to {crossing}", "text": "{ not one } {{neither}}"}),
    ],
)
def test_what_is_right_passes(given: Any) -> None:
    assert toolset_errors(given, ["TOKEN"]) == []


@pytest.mark.parametrize(
    ("given", "kind", "loc"),
    [
        (body(MCP, url="https://bob:pass@example.com/"), "url_credentials", ["url"]),
        (body(MCP, url="https://example.com:99999/"), "url_invalid", ["url"]),
        (body(MCP, url="https://example.com/${secret:TOKEN}"), "secret_outside_headers", ["url"]),
        (body(MCP, headers={"Host": "x"}), "header_reserved", ["headers", "Host"]),
        (body(MCP, headers={"X-A": "1", "x-a": "2"}), "header_repeated", ["headers", "x-a"]),
        (body(MCP, headers={"X-A": "${secret:9}"}), "secret_reference", ["headers", "X-A"]),
        (body(MCP, headers={"X-A": "${secret:TOKE}"}), "secret_unknown", ["headers", "X-A"]),
        (body(OPENAPI, document={"openapi": "3.1.0"}), "document_ambiguous", ["document"]),
        (body(OPENAPI, document_url=None), "document_ambiguous", ["document"]),
        (body(OPENAPI, document_url=None, document="x" * 2_000_001), "document_too_large", ["document"]),
        (http(url="https://{crossing}.example.com/"), "placeholder_in_host", ["tools", 0, "url"]),
        (http(url="https://example.com/{nothing}"), "placeholder_unknown", ["tools", 0, "url"]),
        (http(query={"a": {"b": ["{nothing}"]}}), "placeholder_unknown", ["tools", 0, "query", "a", "b", 0]),
        (http(method="POST", body={"a": "${secret:TOKEN}"}), "secret_outside_headers", ["tools", 0, "body", "a"]),
        (http(body={"a": 1}), "body_of_get", ["tools", 0, "body"]),
        (http(parameters={"type": "array"}, url="https://x.example.com"), "schema_not_of_object", None),
        (http(headers={"X-A": "${secret:NONE}"}), "secret_unknown", ["tools", 0, "headers", "X-A"]),
        (body({"name": "a", "type": "http", "tools": [TOOL, TOOL]}), "tool_repeated", ["tools", 1, "name"]),
        (
            body({"name": "a", "type": "http", "tools": [TOOL], "tool_settings": {"far": {}}}),
            "tool_unknown",
            ["tool_settings", "far"],
        ),
    ],
)
def test_what_is_wrong_is_named(given: Any, kind: str, loc: list[str | int] | None) -> None:
    ((found_kind, found_loc),) = kinds(given, "TOKEN")

    assert found_kind == kind
    assert loc is None or found_loc == loc


def test_an_unknown_secret_has_a_hint() -> None:
    (near,) = toolset_errors(body(MCP, headers={"X-A": "${secret:TOKN}"}), ["TOKEN"])
    (far,) = toolset_errors(body(MCP, headers={"X-A": "${secret:QQQ}"}), ["TOKEN"])

    assert near.hint == "did you mean TOKEN?"
    assert far.hint == "store it first: PUT /secrets/QQQ/"


def test_the_secrets_of_all_headers_are_known_by_name() -> None:
    config = {"headers": {"A": "${secret:ONE} ${secret:TWO}"}, "tools": [{"headers": {"B": "${secret:ONE}"}}, {}]}

    assert secret_names(config) == ["ONE", "TWO"]


def test_settings_of_a_tool_win_over_those_of_the_toolset() -> None:
    given = body(MCP, approval="always", timeout_seconds=5, tool_settings={"find": {"approval": "never", "retries": 0}})

    find, refund = settled([ConnectedTool(name="find", safe_to_repeat=True), ConnectedTool(name="refund")], given)

    assert (find.approval, find.timeout_seconds, find.retries, find.safe_to_repeat) == ("never", 5, 0, True)
    assert (refund.approval, refund.timeout_seconds, refund.retries, refund.safe_to_repeat) == ("always", 5, 2, False)


def test_settings_that_an_http_tool_has_itself_win() -> None:
    given = body(
        {"name": "fares", "type": "http", "tools": [{**TOOL, "retries": 1}], "retries": 3, "safe_to_repeat": False}
    )

    (tool,) = settled([ConnectedTool(name="fare", safe_to_repeat=True)], given)

    assert (tool.retries, tool.safe_to_repeat) == (1, False)


@pytest.mark.parametrize(("given", "choice"), [(MCP, "allowed_tools"), (OPENAPI, "operations")])
def test_tools_that_were_left_out_are_named(given: dict[str, Any], choice: str) -> None:
    [warning] = left_out_warnings(body(given), [LeftOutTool(name="book", reason="its inputSchema isn't an object")])

    assert (warning.type, warning.loc) == ("tool_left_out", ["tools", "book"])
    assert warning.message == "The tool 'book' was skipped: its inputSchema isn't an object"
    assert choice in (warning.hint or "")


def test_warnings_about_tools_that_were_left_out_have_a_limit() -> None:
    assert len(left_out_warnings(body(MCP), [LeftOutTool(name="a", reason="b")] * 101)) == 100

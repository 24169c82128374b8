"""Checks of tools and toolsets."""

from typing import Any

import pytest

from libs.contracts.errors import ErrorDetail
from libs.contracts.resources.toolsets import ConnectedTool, CreateToolsetBody, LeftOutTool
from services.registry.domain.toolset import secret_names, settled
from services.registry.domain.toolset_checks import left_out_warnings, toolset_errors
from services.registry.use_cases.configurations import Configurations
from tests.support.registry import (
    FixedCatalogues,
    FixedKnowledgeBases,
    FixedToolsets,
    MemoryAgents,
    configuration,
    identity,
)

TOOLSETS = FixedToolsets(tickets=["find", "refund"], fares=["fare"])
OBJECT = {"type": "object", "properties": {"city": {"type": "string"}}}


async def report(company: str = "company-1", **changes: Any) -> Any:
    configurations = Configurations(MemoryAgents(), FixedCatalogues(), FixedKnowledgeBases([]), TOOLSETS)
    document = configuration(**{"agent_type": "react_agent", **changes})
    return await configurations.validate(document, identity(company=company))


def found(details: list[ErrorDetail]) -> list[tuple[list[str | int], str, str | None]]:
    return [(detail.loc, detail.type, detail.hint) for detail in details]


async def test_tools_of_toolsets_are_known() -> None:
    given = await report(tools=["calculator", "tickets.find", "fares.*"])

    assert (given.errors, given.warnings) == ([], [])


@pytest.mark.parametrize(
    ("tool", "kind", "hint"),
    [
        ("ticket.find", "toolset_unknown", "did you mean 'tickets'?"),
        ("zzz.find", "toolset_unknown", "use one of: fares, tickets"),
        ("tickets.fnd", "tool_unknown", "did you mean 'tickets.find'?"),
        ("tickets.", "tool_unknown", None),
        ("tickets", "tool_unknown", "did you mean 'tickets.*'?"),
        ("refund", "tool_unknown", "did you mean 'tickets.refund'?"),
    ],
)
async def test_an_unknown_tool_is_an_error_with_a_hint(tool: str, kind: str, hint: str | None) -> None:
    ((loc, found_kind, found_hint),) = found((await report(tools=[tool])).errors)

    assert (loc, found_kind) == (["tools", 0], kind)
    assert hint is None or found_hint == hint


async def test_toolsets_of_another_company_do_not_exist() -> None:
    ((_, kind, hint),) = found((await report("company-2", tools=["tickets.find"])).errors)

    assert (kind, hint) == ("toolset_unknown", "create it first: POST /toolsets/")


@pytest.mark.parametrize("pattern", ["tickets.refund", "tickets.*", "*", "calculator"])
async def test_policies_fit_tools_of_the_agent(pattern: str) -> None:
    given = await report(tools=["calculator", "tickets.*"], tool_policies={pattern: {"approval": "always"}})

    assert (given.errors, given.warnings) == ([], [])


@pytest.mark.parametrize(
    ("pattern", "errors", "warnings"),
    [
        ("tickets.refnd", ["policy_unmatched"], []),
        ("fares.fare", ["policy_unmatched"], []),
        ("fares.*", [], ["policy_unused"]),
        ("open_door", ["policy_of_client_tool"], []),
    ],
)
async def test_a_policy_that_fits_nothing_is_told(pattern: str, errors: list[str], warnings: list[str]) -> None:
    given = await report(
        tools=["tickets.*"], client_tools=[{"name": "open_door"}], tool_policies={pattern: {"approval": "always"}}
    )

    assert [error.type for error in given.errors] == errors
    assert [warning.type for warning in given.warnings] == warnings


@pytest.mark.parametrize(
    ("policy", "loc"),
    [
        ({"approval": "sometimes"}, ["tool_policies", "calculator", "approval"]),
        ({"timeout_seconds": 0}, ["tool_policies", "calculator", "timeout_seconds"]),
        ({"retries": 6}, ["tool_policies", "calculator", "retries"]),
        ({"retry": 1}, ["tool_policies", "calculator", "retry"]),
    ],
)
async def test_a_policy_has_three_fields(policy: dict[str, Any], loc: list[str]) -> None:
    given = await report(tools=["calculator"], tool_policies={"calculator": policy})

    assert [error.loc for error in given.errors] == [loc]


async def test_client_tools_make_a_react_agent_of_use() -> None:
    given = await report(client_tools=[{"name": "open_door", "description": "Opens it.", "parameters": OBJECT}])

    assert (given.errors, given.warnings) == ([], [])


@pytest.mark.parametrize(
    ("tools", "loc", "kind"),
    [
        ([{"name": "a b"}], ["client_tools", 0, "name"], "string_pattern_mismatch"),
        ([{"name": "x" * 65}], ["client_tools", 0, "name"], "string_too_long"),
        ([{"name": "a"}, {"name": "a"}], ["client_tools", 1, "name"], "tool_repeated"),
        ([{"name": "calculator"}], ["client_tools", 0, "name"], "tool_repeated"),
        ([{"name": "a", "parameters": {"type": "string"}}], ["client_tools", 0, "parameters", "type"], None),
        (
            [{"name": "a", "parameters": {"type": "object", "required": "city"}}],
            ["client_tools", 0, "parameters", "required"],
            "schema_invalid",
        ),
        (
            [{"name": "a", "parameters": {"type": "object", "$ref": "http://127.0.0.1:1/schema"}}],
            ["client_tools", 0, "parameters"],
            "schema_invalid",
        ),
    ],
)
async def test_a_client_tool_is_checked(tools: list[Any], loc: list[str | int], kind: str | None) -> None:
    (error,) = (await report(tools=["calculator"], client_tools=tools)).errors

    assert error.loc == loc
    assert kind is None or error.type == kind


@pytest.mark.parametrize(
    ("schema", "loc"),
    [
        ({"type": "objekt"}, ["output_schema", "type"]),
        ({"properties": {"a": {"pattern": "(("}}}, ["output_schema", "properties", "a", "pattern"]),
        ({"$ref": "#/$defs/nothing"}, ["output_schema"]),
        ({"maximum": 2**60}, ["output_schema", "maximum"]),
    ],
)
async def test_an_output_schema_is_a_json_schema(schema: dict[str, Any], loc: list[str]) -> None:
    (error,) = (await report(tools=["calculator"], output_schema=schema)).errors

    assert error.loc == loc


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

    assert near.hint == "did you mean 'TOKEN'?"
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

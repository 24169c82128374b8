"""An agent's tools, policies and schemas, checked against the tools of its company."""

from typing import Any

import pytest

from libs.contracts.errors import ErrorDetail
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
        ("ticket.find", "toolset_unknown", "did you mean tickets?"),
        ("zzz.find", "toolset_unknown", "use one of: fares, tickets"),
        ("tickets.fnd", "tool_unknown", "did you mean tickets.find?"),
        ("tickets.", "tool_unknown", None),
        ("tickets", "tool_unknown", "did you mean tickets.*?"),
        ("refund", "tool_unknown", "did you mean tickets.refund?"),
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

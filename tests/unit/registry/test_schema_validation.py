from typing import Any

import pytest

from libs.contracts.resources.agents import AgentConfiguration
from services.registry.domain.schema_validation import is_configuration_like, parse
from tests.support.registry import configuration


@pytest.mark.parametrize(
    ("changes", "loc", "error_type", "hint"),
    [
        ({"agent_type": "llm"}, ["agent_type"], "literal_error", "did you mean 'llm_agent'?"),
        ({"agent_type": "robot"}, ["agent_type"], "literal_error", "one of: llm_agent, react_agent"),
        ({"agent_type": 7}, ["agent_type"], "literal_error", "one of: llm_agent, react_agent"),
        ({"sytem_prompt": "x"}, ["sytem_prompt"], "extra_forbidden", "did you mean 'system_prompt'?"),
        ({"temperature": 1}, ["temperature"], "extra_forbidden", "move temperature under llm_config"),
        ({"is_public": True}, ["is_public"], "extra_forbidden", "setting of stored agents"),
        ({"zzz": 1}, ["zzz"], "extra_forbidden", "use one of these fields: name, agent_type"),
        ({"foo": 1}, ["foo"], "extra_forbidden", "use one of these fields: name, agent_type"),
        ({"type": 1}, ["type"], "extra_forbidden", "did you mean 'agent_type'?"),
        ({"name": 12}, ["name"], "string_type", "quote"),
        ({"name": ""}, ["name"], "string_too_short", "use a length of at least 1"),
        ({"name": "x" * 201}, ["name"], "string_too_long", "use a length of at most 200"),
        ({"name": "\ud800"}, ["name"], "string_unicode", "Unicode"),
        ({"tools": "calculator"}, ["tools"], "list_type", "tools: [calculator]"),
        ({"tools": [1]}, ["tools", 0], "string_type", "quote"),
        ({"llm_config": "gpt"}, ["llm_config"], "model_type", "use an object"),
        ({"llm_config": {"temperature": 3}}, ["llm_config", "temperature"], "less_than_equal", "at least 0"),
        ({"llm_config": {"temperature": "0.5"}}, ["llm_config", "temperature"], "float_type", "number"),
        ({"llm_config": {"temperature": True}}, ["llm_config", "temperature"], "float_type", "number"),
        ({"llm_config": {"max_tokens": 1.5}}, ["llm_config", "max_tokens"], "int_type", "whole number"),
        ({"llm_config": {"temprature": 1}}, ["llm_config", "temprature"], "extra_forbidden", "temperature"),
        ({"llm_config": {"max_tokens": 2**62}}, ["llm_config", "max_tokens"], "less_than_equal", "at most"),
        ({"system_prompt": "p" * 200_001}, ["system_prompt"], "string_too_long", "at most 200000"),
        ({"tools": ["calculator"] * 65}, ["tools"], "too_long", "at most 64"),
        ({"knowledge_bases": [4]}, ["knowledge_bases", 0], "string_type", "IDs"),
        ({"knowledge_bases": [{}]}, ["knowledge_bases", 0, "id"], "missing", "add id"),
        ({"knowledge_bases": [""]}, ["knowledge_bases", 0], "string_too_short", "use a length of at least 1"),
        (
            {"knowledge_bases": [{"id": "k", "mode": "hybird"}]},
            ["knowledge_bases", 0, "mode"],
            "literal_error",
            "did you mean 'hybrid'?",
        ),
        (
            {"knowledge_bases": [{"id": "k", "top_k": 0}]},
            ["knowledge_bases", 0, "top_k"],
            "greater_than_equal",
            "at least 1 and at most 50",
        ),
    ],
)
def test_a_finding_says_where_what_and_how_to_mend_it(
    changes: dict[str, Any], loc: list[str | int], error_type: str, hint: str
) -> None:
    parsed, errors = parse(AgentConfiguration, configuration(**changes))

    assert parsed is None
    assert [(error.loc, error.type) for error in errors] == [(loc, error_type)]
    assert errors[0].message
    assert "Extra inputs" not in errors[0].message
    assert hint in (errors[0].hint or "")


def test_all_findings_are_told_at_once() -> None:
    _, errors = parse(AgentConfiguration, {"agent_type": "x", "tools": [1, 2], "extra": None})

    assert [error.loc for error in errors] == [["name"], ["agent_type"], ["tools", 0], ["tools", 1], ["extra"]]


def test_hostile_documents_get_a_bounded_report() -> None:
    nested: Any = "x"
    for _ in range(5000):
        nested = [nested]

    _, deep = parse(AgentConfiguration, configuration(tools=nested, extra=nested))
    _, many = parse(AgentConfiguration, configuration(**{f"field{number}": 1 for number in range(5000)}))
    _, long = parse(AgentConfiguration, configuration(**{"n" * 100_000: 1}))
    _, odd = parse(AgentConfiguration, configuration(**{"\ud800": "\x00"}))

    assert {error.loc[0] for error in deep} == {"tools", "extra"}
    assert len(many) == 100
    assert [error.loc for error in long] == [["n" * 200]]
    assert [error.loc for error in odd] == [[]]
    assert all(error.model_dump_json() for error in odd)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_are_finite(bad: float) -> None:
    parsed, errors = parse(AgentConfiguration, configuration(llm_config={"temperature": bad}))

    assert parsed is None
    assert errors[0].loc == ["llm_config", "temperature"]


@pytest.mark.parametrize("document", [None, 4, "text", [], [configuration()], {}, {"hello": 1}])
def test_what_is_no_configuration_at_all(document: object) -> None:
    assert not is_configuration_like(document)
    assert parse(AgentConfiguration, document)[0] is None

import hashlib

import pytest

from libs.contracts.resources.agents import AgentConfiguration
from services.registry.domain.configuration import config_hash, next_version, normalised
from tests.support.registry import configuration


def normal(**changes: object) -> dict[str, object]:
    return normalised(AgentConfiguration.model_validate(configuration(**changes)))


def test_defaults_are_written_out_and_open_settings_left_out() -> None:
    assert normal() == {
        "name": "Harbour desk",
        "agent_type": "llm_agent",
        "system_prompt": "Be brief.",
        "llm_config": {"model": "builtin:extractive"},
        "tools": [],
        "knowledge_bases": [],
    }


def test_the_hash_is_of_the_canonical_json() -> None:
    canonical = (
        '{"agent_type":"llm_agent","knowledge_bases":[],"llm_config":{"model":"builtin:extractive",'
        '"temperature":1},"name":"Größe","system_prompt":"Be brief.","tools":["a","b"]}'
    )

    found = config_hash(normal(name="Größe", llm_config={"temperature": 1.0}, tools=["a", "b", "a"]))

    assert found == hashlib.sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"llm_config": {"temperature": 1}}, {"llm_config": {"temperature": 1.0}}),
        ({}, {"tools": [], "llm_config": {}}),
        ({"knowledge_bases": ["kb"]}, {"knowledge_bases": [{"id": "kb", "top_k": 5, "mode": "hybrid"}]}),
        ({}, {"tool_policies": {}, "client_tools": [], "output_schema": None}),
        ({}, {"tool_policies": {"*": {}}}),
    ],
)
def test_what_means_the_same_has_the_same_hash(one: dict[str, object], other: dict[str, object]) -> None:
    assert config_hash(normal(**one)) == config_hash(normal(**other))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Other"},
        {"agent_type": "react_agent"},
        {"system_prompt": ""},
        {"llm_config": {"temperature": 0}},
        {"tools": ["calculator"]},
        {"knowledge_bases": [{"id": "kb", "top_k": 6}]},
        {"tool_policies": {"calculator": {"approval": "always"}}},
        {"client_tools": [{"name": "open_door"}]},
        {"output_schema": {}},
    ],
)
def test_every_part_of_a_configuration_counts(changes: dict[str, object]) -> None:
    assert config_hash(normal(**changes)) != config_hash(normal())


@pytest.mark.parametrize(("before", "after"), [("1.0.0", "1.0.1"), ("1.0.9", "1.0.10")])
def test_next_version(before: str, after: str) -> None:
    assert next_version(before) == after

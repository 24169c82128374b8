from typing import Any

import pytest

from libs.contracts.resources.agents import AgentConfiguration
from services.registry.domain.configuration import config_hash, normalised
from services.registry.domain.findings import InvalidConfiguration
from services.registry.use_cases.configurations import Configurations, NotAConfiguration
from tests.support.registry import (
    FixedCatalogues,
    FixedKnowledgeBases,
    FixedToolsets,
    MemoryAgents,
    configuration,
    identity,
)

TOOLSETS = FixedToolsets(tickets=["find", "refund"], fares=["fare"])


def configurations(
    catalogues: FixedCatalogues | None = None, knowledge_bases: FixedKnowledgeBases | None = None
) -> Configurations:
    return Configurations(
        MemoryAgents(),
        catalogues or FixedCatalogues(),
        knowledge_bases or FixedKnowledgeBases(["kb-1", "kb-2"]),
        TOOLSETS,
    )


async def test_a_valid_configuration_has_a_hash_and_no_findings() -> None:
    document = configuration(llm_config={"model": "openai:gpt-4o"}, knowledge_bases=["kb-1", {"id": "kb-2"}])

    report = await configurations().validate(document, identity())

    assert report.valid
    assert (report.errors, report.warnings) == ([], [])
    assert report.config_hash == config_hash(normalised(AgentConfiguration.model_validate(document)))


@pytest.mark.parametrize(
    ("changes", "loc", "error_type", "hint"),
    [
        ({"llm_config": {"model": "gpt-4o"}}, ["llm_config", "model"], "model_form", "did you mean 'openai:gpt-4o'?"),
        ({"llm_config": {"model": "openai:"}}, ["llm_config", "model"], "model_form", "openai:gpt-4o"),
        ({"llm_config": {"model": "opnai:gpt-4o"}}, ["llm_config", "model"], "provider_unknown", "mean 'openai'?"),
        (
            {"llm_config": {"model": "zz:top"}},
            ["llm_config", "model"],
            "provider_unknown",
            "use one of: builtin, openai",
        ),
        (
            {"llm_config": {"model": "anthropic:claude-sonnet-4-5"}},
            ["llm_config", "model"],
            "provider_not_configured",
            "use builtin or openai, or set the provider's API key and restart",
        ),
        ({"llm_config": {"model": "builtin:magic"}}, ["llm_config", "model"], "model_unknown", "builtin:extractive"),
        (
            {"agent_type": "react_agent", "tools": ["calculater"]},
            ["tools", 0],
            "tool_unknown",
            "did you mean 'calculator'?",
        ),
        (
            {"agent_type": "react_agent", "tools": ["calculator", "zzzzzz"]},
            ["tools", 1],
            "tool_unknown",
            "use one of: calculator, current_time, http_get",
        ),
        ({"knowledge_bases": ["kb-9"]}, ["knowledge_bases", 0], "knowledge_base_unknown", "list"),
        ({"knowledge_bases": ["kb-1", {"id": "kb-1"}]}, ["knowledge_bases", 1], "knowledge_base_repeated", "once"),
    ],
)
async def test_what_does_not_exist_is_an_error(
    changes: dict[str, Any], loc: list[str | int], error_type: str, hint: str
) -> None:
    report = await configurations().validate(configuration(**changes), identity())

    assert not report.valid
    assert report.config_hash is None
    assert [(error.loc, error.type) for error in report.errors] == [(loc, error_type)]
    assert hint in (report.errors[0].hint or "")


@pytest.mark.parametrize(
    ("changes", "errors", "warnings"),
    [
        (
            {"foo": 1, "agent_type": "robot", "llm_config": {"model": "gpt-4o"}, "tools": ["calculater"]},
            [["agent_type"], ["foo"], ["llm_config", "model"], ["tools", 0]],
            [],
        ),
        (
            {"llm_config": {"model": "gpt-4o", "temprature": 1}},
            [["llm_config", "temprature"], ["llm_config", "model"]],
            [],
        ),
        # Nothing is said of what cannot be told without the part that is broken.
        (
            {"agent_type": "react_agent", "tools": [4], "tool_policies": {"calculator": {"approval": "always"}}},
            [["tools", 0]],
            [],
        ),
        ({"llm_config": {"model": 4}, "tools": ["calculator"]}, [["llm_config", "model"]], [["tools"]]),
        ({"name": "", "knowledge_bases": ["kb-9"]}, [["name"], ["knowledge_bases", 0]], []),
        ({"name": "", "output_schema": {"type": 4}}, [["name"], ["output_schema", "type"]], []),
    ],
)
async def test_mistakes_of_form_hide_no_others(
    changes: dict[str, Any], errors: list[list[str | int]], warnings: list[list[str | int]]
) -> None:
    report = await configurations().validate(configuration(**changes), identity())

    assert not report.valid
    assert report.config_hash is None
    assert [error.loc for error in report.errors] == errors
    assert [warning.loc for warning in report.warnings] == warnings


@pytest.mark.parametrize(
    ("changes", "loc", "error_type"),
    [
        ({"llm_config": {"model": "openai:gpt-9"}}, ["llm_config", "model"], "model_unlisted"),
        ({"tools": ["calculator"]}, ["tools"], "tools_unused"),
        ({"agent_type": "react_agent"}, ["tools"], "tools_missing"),
        (
            {"agent_type": "react_agent", "tools": ["calculator", "calculator"]},
            ["tools", 1],
            "tool_repeated",
        ),
    ],
)
async def test_what_is_odd_but_possible_is_a_warning(
    changes: dict[str, Any], loc: list[str | int], error_type: str
) -> None:
    report = await configurations().validate(configuration(**changes), identity())

    assert report.valid
    assert report.config_hash
    assert [(warning.loc, warning.type) for warning in report.warnings] == [(loc, error_type)]


async def test_without_the_runtime_the_form_is_checked_and_a_warning_tells() -> None:
    validate = configurations(FixedCatalogues(None)).validate

    sound = await validate(configuration(tools=["anything"], agent_type="react_agent"), identity())
    broken = await validate(configuration(tools="anything"), identity())

    assert sound.valid
    assert [warning.type for warning in sound.warnings] == ["not_checked"]
    assert not broken.valid


async def test_a_knowledge_base_nobody_could_be_asked_about_is_a_warning() -> None:
    validate = configurations(knowledge_bases=FixedKnowledgeBases(["kb-1"], unchecked=["kb-2"])).validate

    report = await validate(configuration(knowledge_bases=["kb-1", "kb-2"]), identity())

    assert report.valid
    assert [(found.loc, found.type) for found in report.warnings] == [(["knowledge_bases", 1], "not_checked")]


async def test_knowledge_bases_need_an_installation_that_has_them() -> None:
    report = await configurations(knowledge_bases=FixedKnowledgeBases(None)).validate(
        configuration(knowledge_bases=["kb-1"]), identity()
    )

    assert [error.message for error in report.errors] == ["Knowledge bases aren't available in this installation"]


@pytest.mark.parametrize("document", [None, [], "x", {}, {"model": "x"}])
async def test_what_is_no_configuration_gets_no_report(document: object) -> None:
    with pytest.raises(NotAConfiguration):
        await configurations().validate(document, identity())


async def test_requiring_names_all_errors_and_only_looks_at_the_parts_asked_for() -> None:
    broken = AgentConfiguration.model_validate(
        configuration(agent_type="react_agent", tools=["x", "y"], llm_config={"model": "none:such"})
    )
    catalogues = FixedCatalogues()
    checked = configurations(catalogues)

    await checked.require(broken, identity(), {"name", "system_prompt", "is_public"})
    assert catalogues.asked == 0
    with pytest.raises(InvalidConfiguration) as tools_only:
        await checked.require(broken, identity(), {"tools"})
    with pytest.raises(InvalidConfiguration) as everything:
        await checked.require(broken, identity())

    assert [detail.loc for detail in tools_only.value.details or []] == [["tools", 0], ["tools", 1]]
    assert len(everything.value.details or []) == 3
    assert "(and 2 more)" in everything.value.message

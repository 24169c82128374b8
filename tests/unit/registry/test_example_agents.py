from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from libs.contracts.resources.agents import ValidationReport
from services.registry.use_cases.configurations import Configurations
from tests.support.registry import (
    CATALOGUE,
    FixedCatalogues,
    FixedKnowledgeBases,
    FixedToolsets,
    MemoryAgents,
    identity,
)

AGENTS = Path(__file__).parents[3] / "examples" / "agents"
DOCUMENTS: dict[str, Any] = {file.stem: yaml.safe_load(file.read_text()) for file in sorted(AGENTS.glob("*.yaml"))}


FULL = replace(
    CATALOGUE, tools=(*CATALOGUE.tools, "artifact_read", "artifact_search", "table_query", "artifact_create")
)
"""Catalogues of an installation with all services."""


async def report(name: str) -> ValidationReport:
    catalogues, knowledge_bases = FixedCatalogues(FULL), FixedKnowledgeBases(None)
    configurations = Configurations(MemoryAgents(), catalogues, knowledge_bases, FixedToolsets())
    return await configurations.validate(DOCUMENTS[name], identity())


@pytest.mark.parametrize("name", sorted(DOCUMENTS.keys() - {"broken"}))
async def test_the_example_agents_are_valid_without_a_warning(name: str) -> None:
    found = await report(name)

    assert found.valid
    assert (found.errors, found.warnings) == ([], [])


def test_there_is_one_of_each_type() -> None:
    types = {document["agent_type"] for name, document in DOCUMENTS.items() if name != "broken"}

    assert types == {"llm_agent", "react_agent"}


async def test_the_broken_example_is_told_how_to_mend_each_mistake() -> None:
    found = await report("broken")

    assert not found.valid
    assert {".".join(map(str, error.loc)): error.hint for error in found.errors} == {
        "agent_type": "did you mean 'react_agent'?",
        "system_prompt": "use a string; quote values that YAML reads as a number, a date or yes/no",
        "llm_config.temprature": "did you mean 'temperature'?",
        "tools": "use a list of tool names, for example tools: [calculator]",
    }

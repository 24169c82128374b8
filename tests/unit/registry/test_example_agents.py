from pathlib import Path

import pytest
import yaml

from services.registry.use_cases.validate_configuration import Validation
from tests.support.registry import FixedCatalogues, FixedKnowledgeBases, identity

AGENTS = sorted((Path(__file__).parents[3] / "examples" / "agents").glob("*.yaml"))


DOCUMENTS = [yaml.safe_load(file.read_text()) for file in AGENTS]


@pytest.mark.parametrize("document", DOCUMENTS, ids=[file.name for file in AGENTS])
async def test_the_example_agents_are_valid_without_a_warning(document: dict[str, object]) -> None:
    report = await Validation(FixedCatalogues(), FixedKnowledgeBases(None)).report(document, identity())

    assert report.valid
    assert (report.errors, report.warnings) == ([], [])


def test_there_is_one_of_each_type() -> None:
    assert {document["agent_type"] for document in DOCUMENTS} == {"llm_agent", "react_agent"}

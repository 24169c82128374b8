"""The public API is what its baseline says; a change of one is a change of the other, seen in its review."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from services.gateway.entrypoints.rest.application import openapi_document
from tests.contract.public_api.compact import compact

BASELINE = orjson.loads((Path(__file__).parent / "public_api" / "baseline.json").read_bytes())
# An array, what agents can be built from, sums over a time, and the characters of a text.
NO_LISTS = {"agents.list", "models.list", "tools.list", "usage.get", "files.text"}
LISTS = {
    name: operation
    for name, operation in BASELINE["operations"].items()
    if "query limit" in operation["parameters"] and operation["id"] not in NO_LISTS
}


@pytest.fixture(scope="module")
def contract() -> dict[str, Any]:
    return compact(openapi_document())


def test_there_are_the_same_operations(contract: dict[str, Any]) -> None:
    assert sorted(contract["operations"]) == sorted(BASELINE["operations"])


@pytest.mark.parametrize("operation", sorted(BASELINE["operations"]))
def test_an_operation_takes_and_answers_the_same(contract: dict[str, Any], operation: str) -> None:
    assert contract["operations"][operation] == BASELINE["operations"][operation]


def test_schemas_and_credentials_are_the_same(contract: dict[str, Any]) -> None:
    assert sorted(contract["schemas"]) == sorted(BASELINE["schemas"])
    for name, schema in BASELINE["schemas"].items():
        assert contract["schemas"][name] == schema, name
    assert contract["credentials"] == BASELINE["credentials"]


@pytest.mark.parametrize("name", sorted(LISTS))
def test_a_list_goes_on_behind_its_last_entry(contract: dict[str, Any], name: str) -> None:
    operation = contract["operations"][name]
    assert "query after" in operation["parameters"]
    page = contract["schemas"][operation["responses"]["200"]["application/json"]]["properties"]
    assert {"has_more", "next"} <= page.keys()
    if "query offset" in operation["parameters"]:
        assert {"total", "total_is_exact"} <= page.keys()


def test_answers_that_are_whole_arrays_are_known(contract: dict[str, Any]) -> None:
    answers = {name: each["responses"].get("200", {}) for name, each in contract["operations"].items()}
    arrays = {name for name, answer in answers.items() if "items" in answer.get("application/json", ())}
    assert arrays == {"GET /api/v1/agent/"}

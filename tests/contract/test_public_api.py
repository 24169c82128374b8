"""The public API is what its baseline says; a change of one is a change of the other, seen in its review."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.contract.public_api.compact import compact
from tests.support.gateway import gateway

BASELINE = orjson.loads((Path(__file__).parent / "public_api" / "baseline.json").read_bytes())


@pytest.fixture(scope="module")
def contract() -> dict[str, Any]:
    return asyncio.run(_contract())


async def _contract() -> dict[str, Any]:
    async with gateway() as public:
        document: dict[str, Any] = (await public.client.get("/openapi.json")).json()
    return compact(document)


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

"""The queries that workers are scaled by, on the tables that they are about."""

from pathlib import Path

import psycopg
import pytest
import yaml

ROOT = Path(__file__).parents[3]
OVERLAY = ROOT / "deploy" / "k8s" / "overlays" / "keda"
QUERIES = {
    scaler["metadata"]["name"]: (trigger["authenticationRef"]["name"].removesuffix("-database"), trigger["metadata"])
    for file in OVERLAY.glob("*.yaml")
    for scaler in yaml.safe_load_all(file.read_text())
    if scaler["kind"] == "ScaledObject"
    for trigger in scaler["spec"]["triggers"]
    if trigger["type"] == "postgresql"
}


def test_there_are_queries() -> None:
    assert QUERIES.keys() == {"runtime-worker", "ingestion-streams", "artifacts-worker"}


@pytest.fixture
def migrations(name: str) -> Path:
    return ROOT / "services" / QUERIES[name][0] / "migrations"


@pytest.mark.parametrize("name", QUERIES)
async def test_a_query_counts_nothing_when_nothing_waits(name: str, database_url: str) -> None:
    metadata = QUERIES[name][1]
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        row = await (await connection.execute(metadata["query"])).fetchone()

    assert row == (0,)
    assert int(metadata["targetQueryValue"]) > 0

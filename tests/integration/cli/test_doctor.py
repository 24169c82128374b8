"""`aes doctor` on a real broker and a real database."""

import asyncio
import base64
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.doctor import command
from deploy.local.ports import choose_free
from libs.eventing import create_topics
from libs.persistence import migrate
from services.ingestion.bootstrap import MIGRATIONS
from tests.support.infrastructure import Infrastructure


def examine() -> tuple[int, dict[str, dict[str, Any]]]:
    result = CliRunner().invoke(command.app, ["--json"])
    document = json.loads(result.stdout)
    assert document["healthy"] is (result.exit_code == 0)
    return result.exit_code, {finding["check"]: finding for finding in document["findings"]}


@pytest.fixture
def database(infrastructure: Infrastructure, topic_prefix: str) -> Any:
    """Not `database_url`, which needs a loop of the test's own."""
    name = f"test_{topic_prefix.strip('-')}"
    yield asyncio.run(infrastructure.create_database(name))
    asyncio.run(infrastructure.drop_database(name))


def test_what_is_missing_is_found_and_then_put_right(
    kafka: str, topic_prefix: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AES_KAFKA_BOOTSTRAP_SERVERS": kafka,
        "AES_TOPIC_PREFIX": topic_prefix,
        "AES_INGESTION_DATABASE_URL": database,
        "AES_REGISTRY_URL": f"http://127.0.0.1:{choose_free()}",
        "AES_SIGNING_KEY": "0123456789abcdef" * 2,
        "AES_SECRETS_KEY": base64.b64encode(bytes(range(32))).decode(),
    }.items():
        monkeypatch.setenv(name, value)

    code, found = examine()
    assert code == 1
    assert {name for name, one in found.items() if one["state"] == "failed"} == {
        *("topics", "migrations of ingestion", "pgvector", "service registry"),
    }
    assert found["topics"]["remedy"] == "Run: ./aes topics create"
    assert found["migrations of ingestion"]["remedy"] == "Run: python -m services.ingestion migrate"
    assert {found[name]["state"] for name in ("clock of kafka", "clock of database of ingestion")} == {"ok"}

    asyncio.run(create_topics(kafka, topic_prefix))
    migrate(database, MIGRATIONS)
    monkeypatch.delenv("AES_REGISTRY_URL")
    code, found = examine()
    assert (code, found.pop("disks")["state"]) == (0, "skipped")
    assert {one["state"] for one in found.values()} == {"ok"}, found


def test_servers_that_are_away_are_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = f"127.0.0.1:{choose_free()}"
    monkeypatch.setenv("AES_KAFKA_BOOTSTRAP_SERVERS", nowhere)
    monkeypatch.setenv("AES_RUNTIME_DATABASE_URL", f"postgresql://runtime:opensesame@{nowhere}/runtime")
    monkeypatch.setenv("AES_ARTIFACTS_OBJECTS_URL", f"s3://access:opensesame@{nowhere}/bucket?secure=false")
    monkeypatch.setenv("AES_INGESTION_WEAVIATE_URL", f"http://{nowhere}")

    code, found = examine()

    assert code == 1
    broken = ("kafka", "clock of kafka", "database of runtime", "objects of artifacts", "weaviate")
    assert {name: found[name]["state"] for name in broken} == dict.fromkeys(broken, "failed")
    assert all(found[name]["remedy"] for name in broken)
    assert "opensesame" not in json.dumps(found)

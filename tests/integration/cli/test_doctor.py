"""`aes doctor` on a real broker and a real database."""

import asyncio
import base64
import json
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from cli.doctor import command
from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from libs.eventing.administration import create_topics
from libs.persistence import migrate
from libs.secrets import SecretCipher
from services.ingestion.bootstrap import MIGRATIONS
from services.timeline.bootstrap import MIGRATIONS as TIMELINE_MIGRATIONS
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
    assert {found[name]["state"] for name in ("clock of kafka", "clock of the ingestion database")} == {"ok"}

    asyncio.run(create_topics(kafka, topic_prefix))
    migrate(database, MIGRATIONS)
    monkeypatch.delenv("AES_REGISTRY_URL")
    code, found = examine()
    assert (code, found.pop("disks")["state"]) == (0, "skipped")
    assert {one["state"] for one in found.values()} == {"ok"}, found
    asyncio.run(_fail(database))
    code, found = examine()
    assert (code, found["internal errors of ingestion"]["state"]) == (0, "warning")
    assert (
        "label: aes.ingestion.failed.v1, KeyError at services.ingestion:7"
        in (found["internal errors of ingestion"]["detail"])
    )


async def _fail(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            """INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, terminal,
                                   payload, cause)
               VALUES ('e', 'aes.ingestion.failed.v1', 'ingestion-events', 's', 1, 'c', 'label', true, '{}',
                       'KeyError at services.ingestion:7')"""
        )


def test_secrets_under_another_key_are_found(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = bytes(range(32)), bytes(range(32, 64))
    migrate(database, TIMELINE_MIGRATIONS)
    asyncio.run(_keep_secret(database, SecretCipher([old])))
    monkeypatch.setenv("AES_TIMELINE_DATABASE_URL", database)
    for keys, state in (([old], "ok"), ([new, old], "warning"), ([new], "failed")):
        monkeypatch.setenv("AES_SECRETS_KEY", ",".join(base64.b64encode(key).decode() for key in keys))
        assert examine()[1]["secrets of webhooks"]["state"] == state


async def _keep_secret(database_url: str, cipher: SecretCipher) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("ALTER TABLE webhook_secrets DROP CONSTRAINT fk_webhook_secrets_webhook_id_webhooks")
        values = (new_id(), new_id(), cipher.encrypt("whsec_", context="anywhere"))
        statement = "INSERT INTO webhook_secrets (id, webhook_id, ciphertext, created_at) VALUES (%s, %s, %s, now())"
        await connection.execute(statement, values)


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

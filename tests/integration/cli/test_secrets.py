"""`aes secrets rotate` on the databases of timeline and registry."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from cli import secrets as command
from cli.app import app
from cli.installation import Installation
from deploy.local.credentials import Credentials
from deploy.local.home import Home
from libs.contracts.identifiers import new_id
from libs.contracts.resources import webhooks
from libs.contracts.resources.secrets import secret_context
from libs.secrets import SecretCipher
from services.registry.bootstrap import MIGRATIONS as REGISTRY
from services.timeline.bootstrap import MIGRATIONS as TIMELINE
from tests.support.infrastructure import Infrastructure

OLD, NEW, LOST, STORED = b"o" * 32, b"n" * 32, b"l" * 32, b"s" * 32


@pytest.fixture
def databases(infrastructure: Infrastructure, topic_prefix: str) -> Iterator[dict[str, str]]:
    names = {service: f"test_{topic_prefix.strip('-')}_{service}" for service in ("timeline", "registry")}
    migrations = {"timeline": TIMELINE, "registry": REGISTRY}
    yield {
        service: asyncio.run(infrastructure.create_migrated(name, migrations[service]))
        for service, name in names.items()
    }
    for name in names.values():
        asyncio.run(infrastructure.drop_database(name))


def keep_secret(url: str, name: str, key: bytes) -> None:
    ciphertext = SecretCipher([key]).encrypt(f"value of {name}", context=secret_context("company-1", name))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO secrets VALUES (%s, 'company-1', %s, %s, now(), now())", (new_id(), name, ciphertext)
        )


def keep_webhook_secret(url: str, key: bytes) -> tuple[str, str]:
    webhook_id, secret_id = new_id(), new_id()
    ciphertext = SecretCipher([key]).encrypt("whsec_", context=webhooks.secret_context(webhook_id, secret_id))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE webhook_secrets DROP CONSTRAINT fk_webhook_secrets_webhook_id_webhooks")
        connection.execute(
            "INSERT INTO webhook_secrets (id, webhook_id, ciphertext, created_at) VALUES (%s, %s, %s, now())",
            (secret_id, webhook_id, ciphertext),
        )
    return webhook_id, secret_id


def keys(*keys: bytes) -> str:
    return ",".join(base64.b64encode(key).decode() for key in keys)


def test_every_secret_gets_the_newest_key(databases: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for service, url in databases.items():
        monkeypatch.setenv(f"AES_{service.upper()}_DATABASE_URL", url)
    monkeypatch.setenv("AES_SECRETS_KEY", keys(NEW, OLD))
    for name, key in (("ONE", OLD), ("TWO", NEW), ("GONE", LOST)):
        keep_secret(databases["registry"], name, key)
    webhook_id, secret_id = keep_webhook_secret(databases["timeline"], OLD)

    result = CliRunner().invoke(app, ["secrets", "rotate", "--json"])

    assert json.loads(result.output) == {
        "secrets": [
            {"what": "secrets of webhooks", "changed": 1, "unreadable": []},
            {"what": "secrets of toolsets", "changed": 1, "unreadable": ["secrets/company-1/GONE"]},
        ]
    }
    assert result.exit_code == 1
    newest = SecretCipher([NEW])
    with psycopg.connect(databases["registry"]) as connection:
        stored = dict(connection.execute("SELECT name, ciphertext FROM secrets WHERE name <> 'GONE'").fetchall())
    with psycopg.connect(databases["timeline"]) as connection:
        ((webhook,),) = connection.execute("SELECT ciphertext FROM webhook_secrets").fetchall()
    assert {name: newest.decrypt(each, context=secret_context("company-1", name)) for name, each in stored.items()} == {
        "ONE": "value of ONE",
        "TWO": "value of TWO",
    }
    assert newest.decrypt(webhook, context=webhooks.secret_context(webhook_id, secret_id)) == "whsec_"


def test_secrets_behind_many_unreadable_ones_are_reached(
    databases: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more unreadable ones in a row than a batch holds."""
    installation = Installation(title="", databases=databases, secrets_key=keys(NEW, OLD))
    monkeypatch.setattr(command, "find_installation", lambda: installation)
    for number in range(130):
        keep_secret(databases["registry"], f"NUMBER_{number}", LOST if 5 <= number < 125 else OLD)

    first, again = (json.loads(CliRunner().invoke(app, ["secrets", "rotate", "--json"]).output) for _ in range(2))

    assert [(each["secrets"][1]["changed"], len(each["secrets"][1]["unreadable"])) for each in (first, again)] == [
        (10, 120),
        (0, 120),
    ]


@pytest.mark.parametrize(("lost", "kept"), [((), (NEW, OLD)), ((LOST,), (NEW, OLD, STORED))])
def test_the_embedded_stack_keeps_the_keys_for_its_next_start(
    databases: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    lost: tuple[bytes, ...],
    kept: tuple[bytes, ...],
) -> None:
    """A stored key is dropped only when nothing can be under it any more."""
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"secrets_key": keys(STORED)}))
    for number, key in enumerate((OLD, NEW, *lost)):
        keep_secret(databases["registry"], f"NUMBER_{number}", key)
    installation = Installation(title="", databases=databases, secrets_key=keys(NEW, OLD), home=Home(tmp_path))
    monkeypatch.setattr(command, "find_installation", lambda: installation)
    result = CliRunner().invoke(app, ["secrets", "rotate", "--json"])
    assert result.exit_code == len(lost)
    assert Credentials.load_or_create(file).secrets_key == keys(*kept)


@pytest.mark.parametrize(
    ("given", "said"), [("", "AES_SECRETS_KEY isn't set"), ("c2hvcnQ=", "AES_SECRETS_KEY is invalid")]
)
def test_without_a_key_nothing_happens(given: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_GATEWAY_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("AES_SECRETS_KEY", given)

    result = CliRunner().invoke(app, ["secrets", "rotate"])

    assert result.exit_code != 0
    assert said in result.output + (result.stderr or "")

"""Operations of operators in the gateway's database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import AsyncConnection

from libs.contracts.errors import Conflict, NotFound, ValidationFailed
from libs.persistence import migrate
from services.gateway.administration import Administration, administration, ensure_development_key
from services.gateway.bootstrap import MIGRATIONS
from services.gateway.domain.accounts import OPERATOR_SCOPES


@pytest.fixture
async def migrated(database_url: str) -> str:
    await asyncio.to_thread(migrate, database_url, MIGRATIONS)
    return database_url


@pytest.fixture
async def gateway(migrated: str) -> AsyncIterator[Administration]:
    async with administration(migrated) as gateway:
        yield gateway


async def test_the_development_key_is_made_once(migrated: str, gateway: Administration) -> None:
    secret = await ensure_development_key(migrated)
    assert await ensure_development_key(migrated, secret) == secret
    [company] = await gateway.companies()
    [key] = await gateway.keys(company.id)
    assert (company.rate_limit, key.rate_limit, key.expires_at, key.scopes) == (None, None, None, OPERATOR_SCOPES)
    await gateway.revoke_key(key.id)
    other = await ensure_development_key(migrated, secret)
    assert other != secret
    assert await gateway.valid_key(secret) is None
    assert await gateway.valid_key(other)


async def test_the_development_key_gets_the_scopes_of_a_newer_release(migrated: str, gateway: Administration) -> None:
    await gateway.create_company("Development")
    await gateway.create_user("Development", "developer")
    old = await gateway.create_key(
        "Development", "developer", scopes=OPERATOR_SCOPES - {"webhooks:read", "webhooks:write"}, name="development"
    )
    assert await ensure_development_key(migrated, old.secret) == old.secret
    [key] = await gateway.keys("Development")
    assert (key.id, key.scopes) == (old.key.id, OPERATOR_SCOPES)
    own = await gateway.create_key("Development", "developer", scopes=frozenset({"agents:read"}), name="narrow")
    assert await ensure_development_key(migrated, own.secret) == own.secret
    [narrow, _] = await gateway.keys("Development")
    assert narrow.scopes == {"agents:read"}


async def test_what_is_taken_unknown_or_nonsense_is_refused(gateway: Administration) -> None:
    await gateway.create_company("Acme")
    with pytest.raises(Conflict):
        await gateway.create_company("Acme")
    await gateway.create_user("Acme", "ada")
    with pytest.raises(Conflict):
        await gateway.create_user("Acme", "ada")
    with pytest.raises(NotFound):
        await gateway.create_user("Nobody", "ada")
    with pytest.raises(NotFound):
        await gateway.create_key("Acme", "bob")
    with pytest.raises(ValidationFailed):
        await gateway.create_key("Acme", "ada", scopes=frozenset({"everything"}))
    with pytest.raises(NotFound):
        await gateway.revoke_key("nonsense")
    with pytest.raises(ValidationFailed):
        await gateway.create_company("  ")


async def test_a_rotated_key_ends_after_its_grace(gateway: Administration) -> None:
    await gateway.create_company("Acme")
    await gateway.create_user("Acme", "ada")
    old = await gateway.create_key("Acme", "ada")
    new = await gateway.rotate_key(old.key.id, grace_seconds=3600)
    assert await gateway.valid_key(old.secret)
    assert await gateway.valid_key(new.secret)
    newest, oldest = await gateway.keys("Acme")
    assert (newest.id, oldest.successor_id) == (new.key.id, new.key.id)
    assert oldest.expires_at is not None
    assert oldest.expires_at <= datetime.now(UTC) + timedelta(hours=1)
    with pytest.raises(Conflict):
        await gateway.rotate_key(old.key.id, grace_seconds=3600)


async def test_an_operator_rotates_a_key_with_any_scopes(gateway: Administration) -> None:
    await gateway.create_company("Acme")
    await gateway.create_user("Acme", "ada")
    old = await gateway.create_key("Acme", "ada", scopes=OPERATOR_SCOPES)
    new = await gateway.rotate_key(old.key.id, grace_seconds=3600)
    assert new.key.scopes == OPERATOR_SCOPES
    await gateway.revoke_key(new.key.id)
    assert await gateway.valid_key(new.secret) is None


async def test_what_happens_is_left_for_the_gateway_to_publish(migrated: str, gateway: Administration) -> None:
    await gateway.create_company("Acme")
    await gateway.create_user("Acme", "ada")
    issued = await gateway.create_key("Acme", "ada")
    await gateway.revoke_key(issued.key.id)
    await gateway.revoke_key(issued.key.id)
    async with await AsyncConnection.connect(migrated) as connection:
        cursor = await connection.execute("SELECT type, subject, published_at, payload FROM outbox ORDER BY id")
        rows = await cursor.fetchall()
    assert [row[:3] for row in rows] == [
        ("aes.gateway.api_key.created.v1", issued.key.id, None),
        ("aes.gateway.api_key.revoked.v1", issued.key.id, None),
    ]
    assert not any(issued.secret.encode() in row[3] for row in rows)

"""Recording and renewing an ``Idempotency-Key`` under concurrent repeats."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.contracts.identifiers import new_id
from libs.persistence import Database, migrate
from services.gateway.adapters.postgres.idempotency import PostgresIdempotency
from services.gateway.bootstrap import MIGRATIONS
from services.gateway.domain.idempotency import IdempotencyRecord, IdempotentRequest

REQUEST = IdempotentRequest(
    company_id=new_id(), principal_id=new_id(), method="POST", path="/x/", key="once", body_hash=b"h" * 32
)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresIdempotency]:
    await asyncio.to_thread(migrate, database_url, MIGRATIONS)
    database = Database(database_url, name="test")
    await database.open()
    yield PostgresIdempotency(database)
    await database.close()


async def test_of_many_first_requests_one_is_recorded(store: PostgresIdempotency) -> None:
    async def record() -> IdempotencyRecord:
        return await store.record(REQUEST, command_id=new_id(), correlation_id=new_id())

    found = await asyncio.gather(*(record() for _ in range(20)))
    assert len({(record.command_id, record.correlation_id) for record in found}) == 1
    assert [record.repeated for record in found].count(False) == 1


async def test_of_many_repeats_of_a_refused_request_one_renews_it(store: PostgresIdempotency) -> None:
    first = await store.record(REQUEST, command_id=new_id(), correlation_id="label")

    async def renew() -> IdempotencyRecord:
        return await store.renew(REQUEST, refused=first.command_id, command_id=new_id(), correlation_id="label")

    renewed = await asyncio.gather(*(renew() for _ in range(20)))
    assert len({record.command_id for record in renewed} | {first.command_id}) == 2
    assert {record.correlation_id for record in renewed} == {"label"}
    assert [record.repeated for record in renewed].count(False) == 1


async def test_a_record_dropped_before_its_renewal_keeps_the_label_it_was_told_under(
    store: PostgresIdempotency,
) -> None:
    command_id = new_id()
    renewed = await store.renew(REQUEST, refused=new_id(), command_id=command_id, correlation_id="label")

    assert (renewed.command_id, renewed.correlation_id, renewed.repeated) == (command_id, "label", False)

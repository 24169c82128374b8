"""Recording and renewing an ``Idempotency-Key`` under concurrent repeats."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from psycopg_pool import PoolTimeout

from libs.contracts.errors import ServiceUnavailable, StoreUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.persistence import Database
from services.gateway.adapters.postgres.idempotency import PostgresIdempotency, claim
from services.gateway.domain.idempotency import IdempotencyRecord, IdempotentRequest, Write
from tests.support.waiting import WITHIN, until

REQUEST = IdempotentRequest(
    company_id=new_id(), principal_id=new_id(), method="POST", path="/x/", key="once", body_hash=b"h" * 32
)


@pytest.fixture
def store(database: Database) -> PostgresIdempotency:
    return PostgresIdempotency(database, connections=8)


async def test_a_burst_of_one_company_leaves_others_their_connections(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresIdempotency(database, connections=4, seconds=WITHIN)

    async def record(request: IdempotentRequest) -> IdempotencyRecord:
        return await store.record(request, command_id=new_id(), correlation_id=new_id())

    other = replace(REQUEST, company_id=new_id())
    async with database.transaction() as connection:
        write = Write(
            identity=Identity(company_id="", user_id="", key_id="", scopes=frozenset()),
            correlation_id="label",
            request=REQUEST,
        )
        await claim(connection, write, new_id())
        # Each waits for that transaction, with a connection.
        burst = [asyncio.create_task(record(REQUEST)) for _ in range(20)]
        assert not (await record(other)).repeated
        assert store.waiting == 18
        assert (await record(other)).repeated
        # Who has none does not wait longer than others do for the database.
        monkeypatch.setattr(store, "_seconds", 0.1)
        with pytest.raises(ServiceUnavailable) as refused:
            await record(REQUEST)
        assert refused.value.retry_after
        assert not any(each.done() for each in burst)
    assert all(each.repeated for each in await asyncio.gather(*burst))


async def test_a_write_whose_turn_has_come_and_that_gets_no_connection_is_an_outage(database_url: str) -> None:
    database = Database(database_url, name="test", max_size=1, timeout=0.5)
    await database.open()
    store = PostgresIdempotency(database, connections=4, seconds=0.5)

    async def answers() -> bool:
        with suppress(PoolTimeout):
            await database.ping()
            return True
        return False

    # The pool has its connection, which on a busy machine may take longer than it waits for one.
    await until(answers)
    async with database.connection():
        with pytest.raises(StoreUnavailable):
            await store.record(REQUEST, command_id=new_id(), correlation_id=new_id())
    await database.close()


@pytest.mark.rule(5)
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

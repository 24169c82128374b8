"""From the first byte to the last reference: no object without a row, no row without an object."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.blobs import _receiving, derived_key, original_key
from libs.contracts.errors import Conflict, StoreUnavailable, ValidationFailed
from libs.objects import ObjectStore, one_piece, read_all
from tests.integration.blobs.owner import COMPANY, Owner, collector
from tests.support.waiting import until


async def states(owner: Owner) -> dict[str, int]:
    return dict(await owner.database.execute("SELECT state, count(*) FROM blobs GROUP BY state"))


async def keys(store: ObjectStore) -> set[str]:
    return {entry.key async for entry in store.entries()}


async def blob_of(owner: Owner, file_id: str) -> str:
    [(blob_id,)] = await owner.database.execute("SELECT blob_id FROM owned WHERE id = %s", (file_id,))
    return str(blob_id)


async def pass_hours(owner: Owner, hours: float) -> None:
    await owner.database.execute("UPDATE blobs SET since = since - %s * interval '1 hour'", (hours,))


@pytest.mark.rule(25)
@pytest.mark.parametrize(
    "objects_url",
    [
        "directory",
        pytest.param(
            "s3", marks=pytest.mark.slow(covered_by="test_a_kill_at_any_step_loses_doubles_and_leaks_nothing")
        ),
    ],
    indirect=True,
)
async def test_a_kill_at_any_step_loses_doubles_and_leaks_nothing(
    owner: Owner, store: ObjectStore, database_url: str, objects_url: str
) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.blobs.owner", database_url, objects_url, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await program.communicate()
    killed = int(output.split()[-1])
    assert killed > 25, "the last life came to its end, and all others were killed"
    owned = await owner.database.execute("SELECT o.id, b.sha256 FROM owned o LEFT JOIN blobs b ON b.id = o.blob_id")
    assert len(owned) > killed
    for _ in range(2):
        await store.start()
        while await collector(owner.database, store)():
            pass

    for number in range(1, killed + 2):
        same, own = await owner.upload(
            [("same.txt", b"the same each time"), ("own.txt", f"of life {number}".encode())], f"kept {number}"
        )
        assert await read_all(store, original_key(await blob_of(owner, own))) == f"of life {number}".encode()
        assert await read_all(store, original_key(await blob_of(owner, same))) == b"the same each time"
    while await collector(owner.database, store)():
        pass
    referenced = await owner.database.execute("SELECT DISTINCT blob_id FROM owned")
    assert await states(owner) == {"stored": len(referenced)}
    assert await keys(store) == {original_key(blob_id) for (blob_id,) in referenced}
    names = dict(await owner.database.execute("SELECT name, count(*) FROM owned GROUP BY name"))
    assert (names["same.txt"], names["own.txt"]) == (killed + 1, killed + 1)


@pytest.mark.rule(25)
async def test_equal_bytes_are_stored_once_for_a_company(owner: Owner, store: ObjectStore) -> None:
    raced = await asyncio.gather(*(owner.upload([("a.txt", b"raced")]) for _ in range(8)))
    ids = [file_id for (file_id,) in raced]
    twice = await owner.upload([("b.txt", b"twice"), ("c.txt", b"twice")])
    await owner.upload([("a.txt", b"raced")], company="company-2")

    assert len(set(ids)) == 8
    assert len({await blob_of(owner, each) for each in ids}) == 1
    assert len({await blob_of(owner, each) for each in twice}) == 1
    assert len(await keys(store)) == 3
    assert (await states(owner))["stored"] == 3


async def test_a_repeat_with_its_key_makes_nothing(owner: Owner, store: ObjectStore) -> None:
    files = [("a.txt", b"a"), ("b.txt", b"b")]
    first = await owner.upload(files, "key")

    assert await owner.upload(files, "key") == first
    with pytest.raises(ValidationFailed):
        await owner.upload(files[::-1], "key")
    assert await owner.upload(files, "another key") != first
    assert len(await keys(store)) == 2


async def test_a_part_that_breaks_off_costs_the_whole_upload(owner: Owner, store: ObjectStore) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"begin"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await owner.upload([("a.txt", b"whole"), ("b.txt", broken())])

    assert await keys(store) == set()
    assert await states(owner) == {"abandoned": 2}


async def test_an_upload_whose_commit_went_unanswered_keeps_its_bytes(owner: Owner, store: ObjectStore) -> None:
    async def unanswered() -> None:
        async with owner.blobs.upload(COMPANY) as upload:
            file = await owner.blobs.receive(COMPANY, "a.txt", "text/plain", one_piece(b"here to stay"))
            upload.received.add(file.blob_id)
            async with owner.database.transaction() as connection:
                await upload.keep(connection, [file])
            raise StoreUnavailable("the connection was lost")

    with pytest.raises(StoreUnavailable):
        await unanswered()

    assert await states(owner) == {"stored": 1}
    assert len(await keys(store)) == 1


async def test_a_discard_waits_for_a_commit_under_way(owner: Owner, store: ObjectStore) -> None:
    file = await owner.blobs.receive(COMPANY, "a.txt", "text/plain", one_piece(b"here to stay"))
    async with owner.blobs.upload(COMPANY) as upload, owner.database.transaction() as connection:
        await upload.keep(connection, [file])
        discarding = asyncio.create_task(owner.blobs._discard([file.blob_id]))
        waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

        async def waits() -> bool:
            return bool(await owner.database.execute(waiting))

        await until(waits)
    await discarding

    assert await states(owner) == {"stored": 1}
    assert len(await keys(store)) == 1


@pytest.mark.parametrize("forgotten", [False, True])
async def test_an_upload_that_was_given_up_cannot_end(owner: Owner, store: ObjectStore, forgotten: bool) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"begin"
        await collector(owner.database, store, grace_minutes=0 if forgotten else 10)()
        yield b"end"

    with pytest.raises(Conflict):
        await owner.upload([("a.txt", slow())])

    assert await keys(store) == set()
    assert await states(owner) == ({} if forgotten else {"emptied": 1})


async def test_what_takes_hours_to_come_in_is_given_up_by_itself(
    owner: Owner, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"begin"
        await asyncio.Event().wait()

    monkeypatch.setattr(_receiving, "_RECEIVE_SECONDS", 0.05)
    with pytest.raises(Conflict):
        await owner.upload([("a.txt", endless())])
    assert await keys(store) == set()


async def test_unused_bytes_stay_for_a_while_and_revive(owner: Owner, store: ObjectStore) -> None:
    kept, deleted, alone = [(await owner.upload([("a.txt", each)]))[0] for each in (b"same", b"same", b"alone")]
    collect = collector(owner.database, store, keep_hours=24)
    assert await collect() == 2, "of the second upload of the same bytes"
    await owner.delete([deleted, alone])
    await pass_hours(owner, 23)
    assert await collect() == 0
    assert await states(owner) == {"unused": 2}

    [again] = await owner.upload([("a.txt", b"alone")])
    await pass_hours(owner, 2)
    await collect()

    assert await states(owner) == {"stored": 2}
    await owner.delete([kept, again])
    await pass_hours(owner, 25)
    assert await collect() == 4, "emptied, and then removed"
    assert (await states(owner), await keys(store)) == ({}, set())


async def test_bytes_that_come_again_while_the_collector_looks_stay(owner: Owner, store: ObjectStore) -> None:
    [first] = await owner.upload([("a.txt", b"again")])
    await owner.delete([first])
    file = await owner.blobs.receive(COMPANY, "a.txt", "text/plain", one_piece(b"again"))
    async with owner.blobs.upload(COMPANY) as upload, owner.database.transaction() as connection:
        [kept] = await upload.keep(connection, [file])
        await connection.execute("INSERT INTO owned VALUES ('again', 'a.txt', %s)", (kept.blob_id,))
        await collector(owner.database, store, upload_hours=1)()
    while await collector(owner.database, store)():
        pass

    assert await read_all(store, original_key(await blob_of(owner, "again"))) == b"again"
    assert await states(owner) == {"stored": 1}


async def test_what_is_written_late_goes_as_well(owner: Owner, store: ObjectStore) -> None:
    [file_id] = await owner.upload([("a.txt", b"text")])
    blob_id = await blob_of(owner, file_id)
    await store.put(derived_key(blob_id, "text", "text/plain"), one_piece(b"parsed"))
    await owner.delete([file_id])
    collect = collector(owner.database, store, grace_minutes=10)
    assert await collect() == 1
    assert await keys(store) == set()

    await store.put(derived_key(blob_id, "text", "text/plain"), one_piece(b"parsed late"))
    assert await collect() == 0, "somebody might still be writing"
    await pass_hours(owner, 1)
    await collect()
    assert (await states(owner), await keys(store)) == ({}, set())


async def test_an_outage_of_the_store_postpones_what_is_to_be_removed(
    owner: Owner, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await owner.delete(await owner.upload([("a.txt", b"text")]))

    async def away(_: str) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(store, "delete", away)
        with pytest.raises(StoreUnavailable):
            await collector(owner.database, store)()
    assert await states(owner) == {"abandoned": 1}
    await collector(owner.database, store)()
    assert (await states(owner), await keys(store)) == ({}, set())

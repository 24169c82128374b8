import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandRejected
from libs.contracts.resources.collections import (
    AddCollectionFiles,
    CollectionCreated,
    CollectionFilesAdded,
    CollectionUpdated,
    CreateCollection,
    DeleteCollection,
    RemoveCollectionFile,
    UpdateCollection,
)
from libs.contracts.resources.files import ChangeFiles, DeleteFile
from libs.eventing.messages import OutboxMessage
from services.ingestion.adapters.postgres.texts import PostgresTexts
from services.ingestion.domain.files import TextKey, TextState
from services.ingestion.domain.parsing import Unparsable
from services.ingestion.use_cases.publish_collection_changes import PublishCollectionChanges
from tests.integration.ingestion.conftest import Ingestion
from tests.support.command_records import unchecked
from tests.support.registry import identity

STRANGER = identity("user-9", company="company-2")


async def create(ingestion: Ingestion, name: str = "Docs", caller: Identity | None = None) -> str:
    collection_id = new_id()
    outcome = await ingestion.run_command(CreateCollection(collection_id=collection_id, name=name), caller)
    assert outcome.type == CollectionCreated.TYPE
    return collection_id


async def add(ingestion: Ingestion, collection_id: str, *file_ids: str) -> Any:
    outcome = await ingestion.run_command(AddCollectionFiles(collection_id=collection_id, file_ids=list(file_ids)))
    return CollectionFilesAdded.decode(outcome.payload).reply


async def read(ingestion: Ingestion, collection_id: str) -> dict[str, Any]:
    collection: dict[str, Any] = (await ingestion.get(f"/internal/collections/{collection_id}")).json()
    return collection


def refused(outcome: OutboxMessage) -> str:
    return CommandRejected.decode(outcome.payload).error.type


def publisher_of(ingestion: Ingestion) -> PublishCollectionChanges:
    return PublishCollectionChanges(ingestion.service.database, ingestion.service.outbox)


async def text_of(ingestion: Ingestion, file_id: str) -> TextKey:
    rows = await ingestion.rows("SELECT blob_id, content_type FROM files WHERE id = %s", file_id)
    return TextKey(rows[0]["blob_id"], rows[0]["content_type"])


async def test_a_new_collection_is_pending_and_empty(ingestion: Ingestion) -> None:
    collection_id = new_id()
    outcome = await ingestion.run_command(
        CreateCollection(collection_id=collection_id, name="Docs", description="All of them")
    )

    collection = json.loads(outcome.payload)["collection"]
    assert collection == {
        "id": collection_id,
        "name": "Docs",
        "description": "All of them",
        "status": "pending",
        "progress": 0,
        "data_source_count": 0,
        "total_size": 0,
        "created_at": collection["created_at"],
        "updated_at": collection["created_at"],
    }
    assert await read(ingestion, collection_id) == collection
    assert datetime.fromisoformat(collection["created_at"]).tzinfo == UTC


async def test_what_is_changed_and_what_is_left_out(ingestion: Ingestion) -> None:
    collection_id = await create(ingestion)
    before = await read(ingestion, collection_id)

    renamed = await ingestion.run_command(UpdateCollection(collection_id=collection_id, name="Papers"))
    described = await ingestion.run_command(UpdateCollection(collection_id=collection_id, description="x"))
    nameless = await ingestion.run_command(unchecked(UpdateCollection, collection_id=collection_id, name="  "))

    after = json.loads(described.payload)["collection"]
    assert (after["name"], after["description"]) == ("Papers", "x")
    assert before["updated_at"] < json.loads(renamed.payload)["collection"]["updated_at"] < after["updated_at"]
    assert refused(nameless) == "validation_error"


async def test_files_are_added_one_by_one(ingestion: Ingestion) -> None:
    collection_id = await create(ingestion)
    first, second = [(await ingestion.file(f"{n}.txt", b"x" * n))["id"] for n in (10, 20)]
    foreign, missing = (await ingestion.file("f.txt", caller=STRANGER))["id"], new_id()

    reply = await add(ingestion, collection_id, first, missing, foreign, first)
    again = await add(ingestion, collection_id, first, second)
    nothing = await add(ingestion, collection_id, missing)

    assert (reply.success, reply.added, reply.failed) == (True, 1, 2)
    assert [(result.file_id, result.status) for result in reply.results] == [
        (first, "added"), (missing, "failed"), (foreign, "failed"),
    ]  # fmt: skip
    assert [result.status for result in again.results] == ["already_added", "added"]
    assert (again.added, again.failed, nothing.success) == (1, 0, False)
    collection = await read(ingestion, collection_id)
    assert (collection["data_source_count"], collection["total_size"]) == (2, 30)
    files = (await ingestion.get(f"/internal/collections/{collection_id}/files")).json()
    assert [file["collection_ids"] for file in files["files"]] == [[collection_id]] * 2


async def test_counts_follow_files_that_go(ingestion: Ingestion) -> None:
    collection_id, other = await create(ingestion), await create(ingestion)
    files = [(await ingestion.file(f"{n}.txt", b"x" * n))["id"] for n in (1, 2, 4)]
    await add(ingestion, collection_id, *files)
    await add(ingestion, other, *files)

    await ingestion.run_command(RemoveCollectionFile(collection_id=collection_id, file_id=files[0]))
    again = await ingestion.run_command(RemoveCollectionFile(collection_id=collection_id, file_id=files[0]))
    await ingestion.run_command(DeleteFile(file_id=files[1]))

    assert refused(again) == "not_found_error"
    sizes = [
        (each["data_source_count"], each["total_size"])
        for each in (await read(ingestion, collection_id), await read(ingestion, other))
    ]
    assert sizes == [(1, 4), (2, 5)]
    assert (await ingestion.get(f"/internal/files/{files[0]}")).status_code == 200


async def test_a_deleted_collection_leaves_its_files(ingestion: Ingestion) -> None:
    collection_id, file = await create(ingestion), await ingestion.file()
    await add(ingestion, collection_id, file["id"])

    await ingestion.run_command(DeleteCollection(collection_id=collection_id))

    assert (await ingestion.get(f"/internal/collections/{collection_id}")).status_code == 404
    assert (await ingestion.get(f"/internal/collections/{collection_id}/files")).status_code == 404
    assert (await ingestion.get(f"/internal/files/{file['id']}")).json() == file
    late = await ingestion.run_command(AddCollectionFiles(collection_id=collection_id, file_ids=[file["id"]]))
    assert refused(late) == "not_found_error"


async def test_status_and_progress_follow_the_texts(ingestion: Ingestion) -> None:
    collection_id = await create(ingestion)
    files = [(await ingestion.file(f"{n}.txt", b"x" * n))["id"] for n in (1, 2, 3)]
    texts, keys = PostgresTexts(ingestion.service.database), [await text_of(ingestion, file) for file in files]
    seen = []

    async def look() -> None:
        collection = await read(ingestion, collection_id)
        seen.append((collection["status"], collection["progress"]))

    await add(ingestion, collection_id, *files[:2])
    await look()
    await texts.claim(keys[:1], seconds=60)
    await look()
    await texts.parsed([keys[0]])
    await look()
    await texts.parsed([keys[1]])
    await look()
    await add(ingestion, collection_id, files[2])
    await look()
    await texts.failed({keys[2]: Unparsable("damaged", "cannot be read")})
    await look()
    await ingestion.run_command(DeleteFile(file_id=files[2]))
    await look()

    assert seen == [
        ("pending", 0), ("running", 0), ("running", 50), ("completed", 100),
        ("pending", 66), ("failed", 100), ("completed", 100),
    ]  # fmt: skip


async def test_listeners_are_told_of_every_change_once(ingestion: Ingestion) -> None:
    collection_id, file = await create(ingestion), await ingestion.file()
    publishers = [publisher_of(ingestion), publisher_of(ingestion)]

    async def told() -> list[Any]:
        await asyncio.gather(*(each() for each in publishers))
        rows = await ingestion.rows("SELECT payload FROM outbox WHERE type = %s ORDER BY id", CollectionUpdated.TYPE)
        return [
            (event["status"], event["progress"], event["data_source_count"])
            for event in (json.loads(bytes(row["payload"]))["collection"] for row in rows)
        ]

    assert await told() == []
    await add(ingestion, collection_id, file["id"])
    assert await told() == [("pending", 0, 1)]
    await PostgresTexts(ingestion.service.database).parsed({await text_of(ingestion, file["id"]): 9})
    assert await told() == [("pending", 0, 1), ("completed", 100, 1)]
    assert len(await told()) == 2


async def test_a_text_is_claimed_by_one(ingestion: Ingestion) -> None:
    texts = PostgresTexts(ingestion.service.database)
    keys = [await text_of(ingestion, (await ingestion.file(f"{n}.txt", b"x" * n))["id"]) for n in range(1, 21)]

    claims = await asyncio.gather(*(texts.claim(keys, seconds=60) for _ in range(4)))
    assert sorted(key.blob_id for claim in claims for key in claim) == sorted(key.blob_id for key in keys)

    await ingestion.rows("UPDATE texts SET lease_until = now() - interval '1 s'")
    assert await texts.claim(keys, seconds=60) == set(keys)
    await texts.parsed([keys[0]])
    await texts.failed({keys[1]: Unparsable("damaged", "m"), keys[2]: Unparsable("timeout", "m", retryable=True)})
    assert await texts.claim(keys[:3], seconds=60) == {keys[2]}
    states = await texts.states([*keys[:2], TextKey("unknown", "text/plain")])
    assert (states[keys[0]], states[keys[1]]) == (TextState("parsed", None), TextState("failed", "m"))
    assert set(states) == set(keys[:2])
    assert await texts.claim(keys[:3], seconds=60, again=True) == {keys[1]}


async def test_changes_of_the_same_files_from_all_sides_end(ingestion: Ingestion) -> None:
    collections = [await create(ingestion) for _ in range(3)]
    files = [(await ingestion.file(f"{n}.txt", b"x" * (n + 1)))["id"] for n in range(6)]

    commands = [
        *(AddCollectionFiles(collection_id=each, file_ids=files) for each in collections),
        *(AddCollectionFiles(collection_id=each, file_ids=files[::-1]) for each in collections),
        ChangeFiles(operation="update_tags", file_ids=files[::-1], tags=["t"]),
        ChangeFiles(operation="delete", file_ids=files[2::-1]),
        ChangeFiles(operation="delete", file_ids=files[1:5]),
    ]
    await asyncio.gather(*map(ingestion.run_command, commands))

    for collection_id in collections:
        collection = await read(ingestion, collection_id)
        assert collection["data_source_count"] <= 1
    assert (await ingestion.get("/internal/files")).json()["total"] == 1

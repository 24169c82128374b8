"""An owner of blobs as small as can be: files with a name and a blob, in a database with the tables of `libs/blobs`.

As a program it lives through one upload after another and kills itself with SIGKILL, each time one step later, until
a life comes to its end: `python -m tests.integration.blobs.owner DATABASE OBJECTS`.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from libs.blobs import Blobs, CollectBlobs, Inspection, UploadKey, release, repeated
from libs.blobs.schema import create_blob_tables
from libs.contracts.file_types import type_of
from libs.contracts.identifiers import new_id
from libs.objects import Entry, ObjectStore, Written, one_piece, open_store
from libs.persistence import Connection, Database

COMPANY = "company-1"


async def create_tables(database: Database) -> None:
    statements: list[str] = []

    class Operations:
        execute = staticmethod(statements.append)

    create_blob_tables(Operations)  # type: ignore[arg-type]
    owner = "CREATE TABLE owned (id text PRIMARY KEY, name text NOT NULL, blob_id text NOT NULL REFERENCES blobs (id))"
    for statement in (*statements, owner):
        await database.execute(statement)


class Owner:
    def __init__(self, database: Database, store: ObjectStore) -> None:
        self.database = database
        self.blobs = Blobs(database, store)

    async def upload(self, files: Sequence[tuple[str, Any]], key: str = "", *, company: str = COMPANY) -> list[str]:
        """Name and content of each, bytes or pieces; returns the owner's ids."""
        async with self.blobs.upload(company) as upload:
            received = [
                await upload.receive(
                    name,
                    type_of(name),
                    one_piece(content) if isinstance(content, bytes) else content,
                    max_bytes=1_000_000,
                    inspection=Inspection(),
                )
                for name, content in files
            ]
            ids = [new_id() for _ in received]
            async with self.database.transaction() as connection:
                if key:
                    earlier = await repeated(connection, UploadKey(company, "user", key), received, ids)
                    if earlier is not None:
                        return earlier
                for file_id, file in zip(ids, await upload.keep(connection, received), strict=True):
                    row = (file_id, file.name, file.blob_id)
                    await connection.execute("INSERT INTO owned VALUES (%s, %s, %s)", row)
        return ids

    async def delete(self, ids: Sequence[str]) -> None:
        async with self.database.transaction() as connection:
            gone = await connection.execute("DELETE FROM owned WHERE id = ANY (%s) RETURNING blob_id", (list(ids),))
            await release(connection, [blob_id for (blob_id,) in await gone.fetchall()])


def collector(database: Database, store: ObjectStore, **times: float) -> CollectBlobs:
    """One for which all time has passed, unless told otherwise."""
    passed: dict[str, float] = {"keep_hours": 0, "upload_hours": 0, "grace_minutes": 0}
    return CollectBlobs(database=database, store=store, owner="owned", **{**passed, **times})


class _Mortal:
    """Dies at the n-th of its steps: before a statement, a commit, a piece, the end of an object, and a deletion."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class _MortalDatabase(Database):
    def __init__(self, url: str, step: Callable[[], None]) -> None:
        super().__init__(url, name="mortal", max_size=2)
        self._step = step

    async def execute(self, statement: str, parameters: Any = None) -> list[Any]:
        self._step()
        return await super().execute(statement, parameters)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with super().transaction() as connection:
            yield connection
            self._step()


class _MortalStore:
    def __init__(self, store: ObjectStore, step: Callable[[], None]) -> None:
        self._store = store
        self._step = step

    async def put(self, key: str, pieces: AsyncIterator[bytes], *, durable: bool = True) -> Written:
        async def watched() -> AsyncIterator[bytes]:
            async for piece in pieces:
                self._step()
                yield piece
            self._step()

        # A kill costs no page of the disk's cache.
        return await self._store.put(key, watched(), durable=False)

    async def delete(self, key: str) -> None:
        self._step()
        await self._store.delete(key)

    def entries(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        return self._store.entries(prefix)


async def live(database_url: str, objects_url: str, number: int) -> None:
    """Uploads, twice under a key, what is new and what the company has; deletes some of it, and collects."""
    mortal = _Mortal(number)
    database = _MortalDatabase(database_url, mortal.step)
    store: Any = _MortalStore(open_store(objects_url), mortal.step)
    await database.open()
    owner = Owner(database, store)
    files = [("same.txt", b"the same each time"), ("own.txt", f"of life {number}".encode())]
    for _ in range(2):
        await owner.upload(files, f"kept {number}")
    await owner.delete(await owner.upload([("gone.txt", f"deleted in life {number}".encode())], f"gone {number}"))
    # Uploads of other lives that are still under way must not be given up.
    await collector(database, store, upload_hours=1)()
    await database.close()


def main(database_url: str, objects_url: str) -> int:
    """Returns how many lives ended by a kill."""
    # What is imported now is not imported again by each child.
    open_store(objects_url)
    for number in range(1, 1000):
        child = os.fork()
        if child == 0:
            asyncio.run(live(database_url, objects_url, number))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return number - 1 if status == 0 else -1
    return -1


if __name__ == "__main__":
    print(main(*sys.argv[1:]))

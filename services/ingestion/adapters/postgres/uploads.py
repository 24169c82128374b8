"""Uploads in PostgreSQL: blobs are recorded before their bytes and stored once per company."""

from collections.abc import Sequence
from typing import Final

from libs.contracts.errors import Conflict, ValidationFailed
from libs.contracts.identifiers import new_id
from libs.eventing import Transaction
from libs.persistence import Database, fetch_records, fetch_value
from libs.quotas import CompanyAmounts
from services.ingestion.adapters.postgres.files import LIVE_FILES, file_of
from services.ingestion.domain.files import StoredFile
from services.ingestion.domain.ports.files import NewFile

FILES: Final = "files"
FILE_BYTES: Final = "file_bytes"


class PostgresUploads:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, company_id: str) -> str:
        blob_id = new_id()
        await self._database.execute(
            "INSERT INTO blobs (id, company_id, state) VALUES (%s, %s, 'uploading')", (blob_id, company_id)
        )
        return blob_id

    async def abandon(self, blob_ids: Sequence[str]) -> set[str]:
        given_up = await self._database.execute(
            """UPDATE blobs SET state = 'abandoned', unused_since = now()
               WHERE id = ANY (%s) AND state IN ('uploading', 'abandoned') RETURNING id""",
            (list(blob_ids),),
        )
        return {row[0] for row in given_up}


class PostgresUploadWriter:
    def __init__(self, transaction: Transaction, amounts: CompanyAmounts) -> None:
        self._connection = transaction.connection
        self._amounts = amounts

    async def earlier(self, company_id: str, user_id: str, key: str, content_hash: str) -> list[StoredFile] | None:
        entered = await self._connection.execute(
            """INSERT INTO uploads (company_id, user_id, key, content_hash, file_ids) VALUES (%s, %s, %s, %s, '{}')
               ON CONFLICT DO NOTHING""",
            (company_id, user_id, key, content_hash),
        )
        if entered.rowcount:
            return None
        cursor = await self._connection.execute(
            "SELECT content_hash, file_ids FROM uploads WHERE (company_id, user_id, key) = (%s, %s, %s)",
            (company_id, user_id, key),
        )
        row = await cursor.fetchone()
        if row is None:
            raise Conflict("An upload with this Idempotency-Key is just being forgotten; repeat it.")
        if row[0] != content_hash:
            raise ValidationFailed("The Idempotency-Key was used before with other files.")
        return await self._files(company_id, row[1])

    async def remember(self, company_id: str, user_id: str, key: str, file_ids: Sequence[str]) -> None:
        await self._connection.execute(
            "UPDATE uploads SET file_ids = %s WHERE (company_id, user_id, key) = (%s, %s, %s)",
            (list(file_ids), company_id, user_id, key),
        )

    async def complete(self, company_id: str, user_id: str, files: Sequence[NewFile]) -> list[StoredFile]:
        wanted = {FILES: len(files), FILE_BYTES: sum(file.size for file in files)}
        await self._amounts.check(self._connection, company_id, wanted)
        kept: dict[str, str] = {}
        # In one order, so that two uploads of the same files never wait for each other.
        for file in sorted(files, key=lambda each: each.sha256):
            kept[file.id] = await self._keep(company_id, file)
        for file in files:
            await self._connection.execute(
                "INSERT INTO texts (blob_id, content_type, company_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (kept[file.id], file.content_type, company_id),
            )
            await self._connection.execute(
                """INSERT INTO files (id, company_id, blob_id, name, content_type, size, sha256, created_by)
                   VALUES (%s, %s, %s, %s, %s, %s, %s, %s)""",
                (
                    file.id, company_id, kept[file.id], file.name, file.content_type, file.size, file.sha256, user_id,
                ),
            )  # fmt: skip
        return await self._files(company_id, [file.id for file in files])

    async def _keep(self, company_id: str, file: NewFile) -> str:
        """Returns the blob that holds these bytes: the company's earlier one, or the new one."""
        # An advisory lock, since two first uploads of the same bytes have no common row to lock.
        lock = f"{company_id}/{file.sha256}"
        await self._connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
        found: str | None = await fetch_value(
            self._connection,
            """UPDATE blobs SET unused_since = NULL
               WHERE company_id = %s AND sha256 = %s AND state = 'stored' RETURNING id""",
            (company_id, file.sha256),
        )
        if found is None:
            stored = await self._connection.execute(
                "UPDATE blobs SET state = 'stored', sha256 = %s, size = %s WHERE id = %s AND state = 'uploading'",
                (file.sha256, file.size, file.blob_id),
            )
            if not stored.rowcount:
                raise Conflict("The upload took so long that it was given up; repeat it.")
            return file.blob_id
        await self._connection.execute(
            "UPDATE blobs SET state = 'abandoned', unused_since = now() WHERE id = %s", (file.blob_id,)
        )
        return found

    async def _files(self, company_id: str, ids: Sequence[str]) -> list[StoredFile]:
        rows = await fetch_records(
            self._connection,
            f"{LIVE_FILES} AND f.id = ANY (%(ids)s) ORDER BY array_position(%(ids)s, f.id)",
            {"company": company_id, "ids": list(ids)},
        )
        return [file_of(row) for row in rows]

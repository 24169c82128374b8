"""New files in PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Final

from libs.blobs import ReceivedFile
from libs.eventing import Transaction
from libs.persistence import fetch_records
from libs.quotas import CompanyAmounts
from services.ingestion.adapters.postgres.files import LIVE_FILES, file_of
from services.ingestion.domain.files import StoredFile

FILES: Final = "files"
FILE_BYTES: Final = "file_bytes"


class PostgresNewFiles:
    def __init__(self, transaction: Transaction, amounts: CompanyAmounts) -> None:
        self._connection = transaction.connection
        self._amounts = amounts

    async def add(self, company_id: str, user_id: str, files: Mapping[str, ReceivedFile]) -> list[StoredFile]:
        wanted = {FILES: len(files), FILE_BYTES: sum(file.size for file in files.values())}
        await self._amounts.check(self._connection, company_id, wanted)
        for file_id, file in files.items():
            await self._connection.execute(
                "INSERT INTO texts (blob_id, content_type, company_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (file.blob_id, file.content_type, company_id),
            )
            await self._connection.execute(
                """INSERT INTO files (id, company_id, blob_id, name, content_type, size, sha256, created_by)
                   VALUES (%s, %s, %s, %s, %s, %s, %s, %s)""",
                (
                    file_id, company_id, file.blob_id, file.name, file.content_type, file.size, file.sha256, user_id,
                ),
            )  # fmt: skip
        return await self.get(company_id, list(files))

    async def get(self, company_id: str, file_ids: Sequence[str]) -> list[StoredFile]:
        rows = await fetch_records(
            self._connection,
            f"{LIVE_FILES} AND f.id = ANY (%(ids)s) ORDER BY array_position(%(ids)s, f.id)",
            {"company": company_id, "ids": list(file_ids)},
        )
        return [file_of(row) for row in rows]

"""The garbage collector of blobs. Nothing else deletes stored blobs."""

from dataclasses import dataclass
from typing import Final

import structlog

from libs.blobs._rows import prefix_of
from libs.objects import ObjectStore, delete_all
from libs.persistence import Database

_UPLOAD_HOURS: Final = 3.0
_BATCH: Final = 200
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectBlobs:
    """Deletes unfinished uploads, and blobs that no row of the table ``owner`` references.

    A blob is first marked as abandoned, so that its upload can't complete. The blob's objects are deleted immediately,
    and again ``grace_minutes`` later, when nothing can still be writing them. Unused blobs are kept for ``keep_hours``.
    A run can be repeated or interrupted, and several runs can overlap.
    """

    database: Database
    store: ObjectStore
    owner: str
    keep_hours: float
    upload_hours: float = _UPLOAD_HOURS
    grace_minutes: float = 10.0

    async def __call__(self) -> int:
        """Runs the collection once. Returns the number of blobs emptied or deleted."""
        await self._give_up()
        emptied, removed = 0, 0
        while blob_ids := await self._in_state("abandoned", 0):
            await self._empty(blob_ids)
            await self._change("UPDATE blobs SET state = 'emptied', since = now()", "abandoned", blob_ids)
            emptied += len(blob_ids)
        while blob_ids := await self._in_state("emptied", self.grace_minutes):
            await self._empty(blob_ids)
            await self._change("DELETE FROM blobs", "emptied", blob_ids)
            removed += len(blob_ids)
        if emptied or removed:
            _log.info("blobs.collected", emptied=emptied, removed=removed)
        return emptied + removed

    async def _give_up(self) -> None:
        async with self.database.transaction() as connection:
            await connection.execute(
                """UPDATE blobs SET state = 'abandoned', since = now() WHERE id IN (
                       SELECT id FROM blobs WHERE state = 'uploading' AND since <= now() - %s * interval '1 hour'
                       FOR UPDATE SKIP LOCKED)""",
                (self.upload_hours,),
            )
            found = await connection.execute(
                """SELECT id FROM blobs WHERE state = 'unused' AND since <= now() - %s * interval '1 hour'
                   ORDER BY since LIMIT %s FOR UPDATE SKIP LOCKED""",
                (self.keep_hours, _BATCH),
            )
            if unused := [blob_id for (blob_id,) in await found.fetchall()]:
                # Only a second statement sees referencing rows that were inserted before the locks were taken.
                statement = f"""
                    UPDATE blobs b SET since = now(), state = CASE
                        WHEN EXISTS (SELECT FROM {self.owner} o WHERE o.blob_id = b.id) THEN 'stored' ELSE 'abandoned'
                    END
                    WHERE b.id = ANY (%s)"""
                await connection.execute(statement.encode(), (unused,))

    async def _in_state(self, state: str, minutes: float) -> list[str]:
        found = await self.database.execute(
            """SELECT id FROM blobs WHERE state = %s AND since <= now() - %s * interval '1 minute'
               ORDER BY since LIMIT %s""",
            (state, minutes, _BATCH),
        )
        return [blob_id for (blob_id,) in found]

    async def _empty(self, blob_ids: list[str]) -> None:
        for blob_id in blob_ids:
            await delete_all(self.store, prefix_of(blob_id))

    async def _change(self, change: str, state: str, blob_ids: list[str]) -> None:
        # Rows are locked in a fixed order, so that two collectors can't deadlock.
        await self.database.execute(
            f"""{change} WHERE id IN (
                    SELECT id FROM blobs WHERE id = ANY (%s) AND state = %s ORDER BY id FOR UPDATE)""",
            (blob_ids, state),
        )

"""Stores the states of parsed texts in PostgreSQL."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from libs.persistence import Database
from services.ingestion.adapters.postgres.holders import no_holder
from services.ingestion.domain.files import TextKey, TextState
from services.ingestion.domain.parsing import Unparsable

_KEYS: Final = "unnest(%(blobs)s::text[], %(types)s::text[]) AS k (blob_id, content_type)"


class PostgresTexts:
    """The states of parsed texts. The texts themselves are in the object store."""

    def __init__(self, database: Database, holder: Callable[[], int | None] = no_holder) -> None:
        self._database = database
        self._holder = holder

    async def states(self, texts: Sequence[TextKey]) -> Mapping[TextKey, TextState]:
        """Returns the states of those texts that are known."""
        rows = await self._database.execute(
            f"""SELECT t.blob_id, t.content_type, t.state, CASE t.state WHEN 'failed' THEN t.error_message END
                FROM texts t JOIN {_KEYS} USING (blob_id, content_type)""",
            _columns(texts),
        )
        return {TextKey(row[0], row[1]): TextState(row[2], row[3]) for row in rows}

    async def claim(self, texts: Sequence[TextKey], *, seconds: float, again: bool = False) -> set[TextKey]:
        """Claims texts that are neither parsed nor leased.

        A failed text is only claimed if it's retryable or ``again`` is set.
        """
        # Lock in key order, so that two claims can't deadlock.
        cursor = await self._database.execute(
            f"""WITH free AS (
                    SELECT t.blob_id, t.content_type FROM texts t JOIN {_KEYS} USING (blob_id, content_type)
                    WHERE t.state = 'pending' OR (t.state = 'running' AND t.lease_until < now())
                       OR (t.state = 'failed' AND (t.retryable OR %(again)s))
                    ORDER BY t.blob_id, t.content_type FOR UPDATE OF t SKIP LOCKED)
                UPDATE texts t
                SET state = 'running', attempts = attempts + 1, changed_at = clock_timestamp(),
                    lease_until = now() + %(seconds)s * interval '1 second', holder = %(holder)s
                FROM free WHERE (t.blob_id, t.content_type) = (free.blob_id, free.content_type)
                RETURNING t.blob_id, t.content_type""",
            {**_columns(texts), "seconds": seconds, "again": again, "holder": self._holder()},
        )
        return {TextKey(*row) for row in cursor}

    async def renew(self, texts: Sequence[TextKey], *, seconds: float) -> None:
        await self._database.execute(
            f"""UPDATE texts t SET lease_until = now() + %(seconds)s * interval '1 second' FROM (
                    SELECT t.blob_id, t.content_type FROM texts t JOIN {_KEYS} USING (blob_id, content_type)
                    WHERE t.state = 'running' FOR UPDATE OF t SKIP LOCKED) held
                WHERE (t.blob_id, t.content_type) = (held.blob_id, held.content_type)""",
            {**_columns(texts), "seconds": seconds},
        )

    async def parsed(self, texts: Collection[TextKey]) -> None:
        """Marks stored texts as parsed."""
        async with self._database.transaction() as connection:
            await connection.cursor().executemany(
                """UPDATE texts SET state = 'parsed', error_code = NULL, error_message = NULL,
                       retryable = false, lease_until = NULL, changed_at = clock_timestamp()
                   WHERE blob_id = %s AND content_type = %s""",
                sorted(map(_order, texts)),
            )

    async def failed(self, failures: Mapping[TextKey, Unparsable]) -> None:
        async with self._database.transaction() as connection:
            await connection.cursor().executemany(
                """UPDATE texts SET state = 'failed', error_code = %s, error_message = %s,
                       retryable = %s, lease_until = NULL, changed_at = clock_timestamp()
                   WHERE blob_id = %s AND content_type = %s AND state <> 'parsed'""",
                [
                    (why.code, why.message, why.retryable, key.blob_id, key.content_type)
                    for key, why in sorted(failures.items(), key=lambda item: _order(item[0]))
                ],
            )

    async def interrupted(self, text: TextKey) -> None:
        """Lowers the number of attempts by one, because an outage ended the attempt.

        The lease is kept, to delay the next attempt.
        """
        await self._database.execute(
            """UPDATE texts SET attempts = attempts - 1
               WHERE blob_id = %s AND content_type = %s AND state = 'running'""",
            (text.blob_id, text.content_type),
        )


def _order(key: TextKey) -> tuple[str, str]:
    return key.blob_id, key.content_type


def _columns(texts: Sequence[TextKey]) -> dict[str, Any]:
    return {"blobs": [key.blob_id for key in texts], "types": [key.content_type for key in texts]}

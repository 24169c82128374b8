"""Keeps and releases the blobs that a service's rows reference, and names the objects of a blob."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from libs.contracts.errors import Conflict, ValidationFailed
from libs.persistence import Connection, fetch_value

# This is a single statement, so that nothing changes between finding the company's blob and changing the new one.
_KEEP: Final = """
    WITH earlier AS (
        UPDATE blobs SET state = 'stored', since = now()
        WHERE company_id = %(company)s AND sha256 = %(sha256)s AND state IN ('stored', 'unused') RETURNING id
    ), received AS (
        UPDATE blobs SET sha256 = %(sha256)s, since = now(),
            state = CASE WHEN EXISTS (SELECT FROM earlier) THEN 'abandoned' ELSE 'stored' END
        WHERE id = %(id)s AND state = 'uploading' RETURNING id, state
    )
    SELECT id FROM earlier UNION ALL SELECT id FROM received WHERE state = 'stored'
"""
_RELEASE: Final = """
    WITH held AS MATERIALIZED (SELECT id FROM blobs WHERE id = ANY (%s) ORDER BY sha256 FOR UPDATE)
    UPDATE blobs b SET state = 'unused', since = now() FROM held WHERE b.id = held.id
"""


def prefix_of(blob_id: str) -> str:
    """Returns the key prefix of a blob's objects."""
    return f"blobs/{blob_id}/"


def original_key(blob_id: str) -> str:
    """Returns the key of the uploaded bytes."""
    return f"{prefix_of(blob_id)}original"


def derived_key(blob_id: str, kind: str, content_type: str) -> str:
    """Returns the key of an object derived from the uploaded bytes, such as extracted text.

    The key includes a hash of the content type, since the same bytes can be parsed as different types.
    """
    return f"{prefix_of(blob_id)}{kind}/{sha256(content_type.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFile:
    """A file whose bytes are in the object store. ``size`` is in bytes; ``sha256`` is hexadecimal."""

    blob_id: str
    name: str
    content_type: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class UploadKey:
    """The idempotency key of an upload. A key is unique per user and ``scope``. A scope is, for example, a company."""

    scope: str
    user_id: str
    key: str


async def repeated(
    connection: Connection, key: UploadKey, files: Sequence[ReceivedFile], ids: Sequence[str]
) -> list[str] | None:
    """Returns the IDs that an earlier upload with this key created.

    If there was none, records ``ids`` and returns None. Waits for a concurrent upload to commit. Raises
    ``ValidationFailed`` if the earlier upload contained other files.
    """
    content_hash = sha256("\n".join(f"{file.sha256} {file.name}" for file in files).encode()).hexdigest()
    row_key = (key.scope, key.user_id, key.key)
    entered = await connection.execute(
        """INSERT INTO uploads (scope, user_id, key, content_hash, ids) VALUES (%s, %s, %s, %s, %s)
           ON CONFLICT DO NOTHING""",
        (*row_key, content_hash, list(ids)),
    )
    if entered.rowcount:
        return None
    found = await connection.execute(
        "SELECT content_hash, ids FROM uploads WHERE (scope, user_id, key) = (%s, %s, %s)", row_key
    )
    row = await found.fetchone()
    if row is None:
        raise Conflict("The upload with this Idempotency-Key has just expired. Send it again.")
    if row[0] != content_hash:
        raise ValidationFailed("The Idempotency-Key was already used with other files. Use a new key.")
    earlier: list[str] = row[1]
    return earlier


async def keep(connection: Connection, company_id: str, files: Sequence[ReceivedFile]) -> list[ReceivedFile]:
    """Returns each file with the ID of the blob to reference. Identical files of a company share a blob.

    Raises ``Conflict`` if the collector has abandoned an upload in the meantime.
    """
    kept: dict[str, str] = {}
    # Files are locked in a fixed order, so that two uploads of the same files can't deadlock.
    for file in sorted(files, key=lambda each: each.sha256):
        # The lock is advisory, since two first uploads of the same bytes have no row in common.
        lock = f"{company_id}/{file.sha256}"
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
        parameters = {"company": company_id, "sha256": file.sha256, "id": file.blob_id}
        blob_id: str | None = await fetch_value(connection, _KEEP, parameters)
        if blob_id is None:
            raise Conflict("The upload took too long and was abandoned. Send it again.")
        kept[file.blob_id] = blob_id
    return [replace(file, blob_id=kept[file.blob_id]) for file in files]


async def release(connection: Connection, blob_ids: Sequence[str]) -> None:
    """Marks blobs as unused after a reference was removed. The collector deletes those that nothing else references."""
    # Rows are locked in the order in which uploads lock them.
    await connection.execute(_RELEASE, (list(blob_ids),))

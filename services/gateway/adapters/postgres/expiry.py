"""Tables of the gateway whose rows go by themselves, and those of the subjects of its events."""

from typing import Final

from libs.eventing import EntityTable, Expiry

_IDEMPOTENCY_DAYS: Final = 3
# A key that was rotated goes before its successor, which it names.
_ENDED_KEYS: Final = Expiry(
    "api_keys",
    since="least(revoked_at, expires_at)",
    id="id::text",
    unneeded="NOT EXISTS (SELECT FROM api_keys k WHERE k.successor_id = t.id)",
)
EXPIRIES: Final = (Expiry("idempotency_keys", since="created_at", days=_IDEMPOTENCY_DAYS), _ENDED_KEYS)
ENTITIES: Final = tuple(EntityTable(table, is_uuid=True) for table in ("api_keys", "connections"))

"""Declares which rows expire, and when they're deleted."""

from typing import Final

from libs.eventing import Expiry

_IDEMPOTENCY_DAYS: Final = 3
# A rotated key is deleted before its successor, which it references.
_ENDED_KEYS: Final = Expiry(
    "api_keys",
    since="least(revoked_at, expires_at)",
    id="id::text",
    unneeded="NOT EXISTS (SELECT FROM api_keys k WHERE k.successor_id = t.id)",
)
EXPIRIES: Final = (Expiry("idempotency_keys", since="created_at", days=_IDEMPOTENCY_DAYS), _ENDED_KEYS)

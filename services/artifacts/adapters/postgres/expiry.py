"""The tables whose rows expire. An artifact's row is deleted before its session's row."""

from typing import Final

from libs.eventing import Expiry

_KEY_DAYS: Final = 3
EXPIRIES: Final = (
    Expiry(
        "artifacts",
        since="deleted_at",
        id="id",
        unneeded="platform_state NOT IN ('copying', 'removing')",
    ),
    Expiry(
        "sessions",
        since="deleted_at",
        id="id",
        unneeded="NOT EXISTS (SELECT FROM artifacts a WHERE a.session_id = t.id)",
    ),
    Expiry("uploads", since="created_at", days=_KEY_DAYS),
)

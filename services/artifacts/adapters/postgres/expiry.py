"""Tables with expiring rows, and tables with the subjects of artifacts' events.

Artifacts are deleted before their session.
"""

from typing import Final

from libs.eventing import EntityTable, Expiry

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
ENTITIES: Final = (EntityTable("artifacts"), EntityTable("sessions"))

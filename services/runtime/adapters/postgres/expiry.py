"""Tables with expiring rows, and tables with the subjects of the runtime's events."""

from typing import Final

from libs.eventing import EntityTable, Expiry

EXPIRIES: Final = (Expiry("session_tombstones", since="deleted_at", id="id"),)
# Turns count their own events.
ENTITIES: Final = (
    EntityTable("sessions"),
    EntityTable("session_tombstones"),
    EntityTable("budgets"),
    EntityTable("retention", id="company_id"),
)

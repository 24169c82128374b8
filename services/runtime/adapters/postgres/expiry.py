"""Tables of the runtime whose rows go by themselves, and those of the subjects of its events."""

from typing import Final

from libs.eventing import EntityTable, Expiry

EXPIRIES: Final = (Expiry("session_tombstones", since="deleted_at", id="id"),)
# Turns count their events themselves.
ENTITIES: Final = (
    EntityTable("sessions"),
    EntityTable("session_tombstones"),
    EntityTable("budgets"),
    EntityTable("retention", id="company_id"),
)

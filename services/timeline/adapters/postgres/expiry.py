"""Tables of the timeline with rows that expire, and those of the subjects of its events."""

from typing import Final

from libs.eventing import EntityTable, Expiry

EXPIRIES: Final = (Expiry("revoked_keys", since="revoked_at"),)
ENTITIES: Final = (EntityTable("webhooks", is_uuid=True),)

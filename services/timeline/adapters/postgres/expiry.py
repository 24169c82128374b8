"""The timeline's tables with expiring rows, and the tables of the entities that its events are about."""

from typing import Final

from libs.eventing import EntityTable, Expiry

EXPIRIES: Final = (Expiry("revoked_keys", since="revoked_at"),)
ENTITIES: Final = (EntityTable("webhooks", is_uuid=True),)

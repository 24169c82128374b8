"""Tables with expiring rows, and tables with the subjects of the registry's events."""

from typing import Final

from libs.eventing import EntityTable, Expiry

EXPIRIES: Final = (
    Expiry("agents", since="deleted_at", id="id", condition="deleted_at IS NOT NULL"),
    Expiry("toolset_versions", since="superseded_at", id="id", condition="superseded_at IS NOT NULL"),
    Expiry("toolsets", since="deleted_at", id="id", condition="deleted_at IS NOT NULL"),
    Expiry("secrets", since="deleted_at", id="id", condition="deleted_at IS NOT NULL"),
)
ENTITIES: Final = (EntityTable("agents"), EntityTable("toolsets"), EntityTable("secrets"))

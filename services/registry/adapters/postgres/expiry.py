"""The tables whose rows expire."""

from typing import Final

from libs.eventing import Expiry

EXPIRIES: Final = (
    Expiry("agents", since="deleted_at", id="id", condition="deleted_at IS NOT NULL"),
    Expiry("toolset_versions", since="superseded_at", id="id", condition="superseded_at IS NOT NULL"),
    Expiry("toolsets", since="deleted_at", id="id", condition="deleted_at IS NOT NULL"),
    Expiry("secrets", since="deleted_at", id="id", condition="deleted_at IS NOT NULL"),
)

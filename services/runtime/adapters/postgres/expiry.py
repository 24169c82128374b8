"""Lists the tables whose rows expire."""

from typing import Final

from libs.eventing import Expiry

EXPIRIES: Final = (Expiry("session_tombstones", since="deleted_at", id="id"),)

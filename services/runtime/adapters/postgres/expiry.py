"""Tables of the runtime whose rows go by themselves."""

from typing import Final

from libs.eventing import Expiry

EXPIRIES: Final = (Expiry("session_tombstones", id="id", since="deleted_at"),)

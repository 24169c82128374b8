"""Tables of the timeline with rows that expire."""

from typing import Final

from libs.eventing import Expiry

EXPIRIES: Final = (Expiry("revoked_keys", since="revoked_at"),)

"""Tables with expiring rows."""

from typing import Final

from libs.eventing import Expiry

EXPIRIES: Final = (Expiry("revoked_keys", since="revoked_at"),)

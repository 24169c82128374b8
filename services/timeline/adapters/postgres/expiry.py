"""Declares which rows expire, and when they're deleted."""

from typing import Final

from libs.eventing import Expiry

EXPIRIES: Final = (Expiry("revoked_keys", since="revoked_at"),)

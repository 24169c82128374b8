"""Accounts: a caller, and the limits of its company."""

from pydantic import BaseModel

from libs.contracts.credentials import SortedScopes
from libs.contracts.timestamps import Timestamp


class LimitOfCompany(BaseModel):
    """`limit` is null if there is none, `used` while the service that counts doesn't answer."""

    limit: int | None
    used: int | None


class Me(BaseModel):
    """The credential's owner and rights, and the company's limits with their use.

    For rates, `used` counts requests or turns not yet refilled: a sixtieth of the limit returns every second. Each
    gateway reserves some in advance, so up to a twentieth per gateway may be unused.
    """

    user_id: str
    user_name: str
    company_id: str
    company_name: str
    key_id: str
    scopes: SortedScopes
    rate_limit: int | None
    expires_at: Timestamp | None
    limits: dict[str, LimitOfCompany]

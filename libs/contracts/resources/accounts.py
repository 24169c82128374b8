"""Accounts: a caller, and the limits of its company."""

from pydantic import BaseModel

from libs.contracts.credentials import SortedScopes
from libs.contracts.timestamps import Timestamp


class LimitOfCompany(BaseModel):
    """`limit` is null where there is none, `used` while the service that counts does not answer."""

    limit: int | None
    used: int | None


class Me(BaseModel):
    """The credential's owner and its rights, and the limits of its company with what is used of each.

    Of a rate, the requests or turns that were taken and are not given back yet: a sixtieth of the limit every second.
    Gateways take what is counted while it happens in blocks, so that up to a twentieth for each may be unused.
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

"""The caller's own account and the limits of its company."""

from pydantic import BaseModel

from libs.contracts.credentials import SortedScopes
from libs.contracts.timestamps import Timestamp


class LimitOfCompany(BaseModel):
    """A company limit. `limit` is `null` if there's no limit.

    `used` is `null` while the service that counts the usage is unavailable.
    """

    limit: int | None
    used: int | None


class Me(BaseModel):
    """The caller's user and permissions, and the company's limits with their current use.

    For rates, `used` counts recent requests or turns. A sixtieth of the limit becomes available again every second.
    Each gateway reserves up to a twentieth of the limit in advance, which may go unused.
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

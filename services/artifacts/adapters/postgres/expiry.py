"""Tables of artifacts whose rows go by themselves. Artifacts go before their session."""

from typing import Final

from libs.eventing import Expiry

EXPIRIES: Final = (
    Expiry(
        "artifacts",
        id="id",
        since="bytes_gone_at",
        condition="state = 'deleted' AND platform_state NOT IN ('copying', 'removing')",
    ),
    Expiry(
        "sessions",
        id="id",
        since="deleted_at",
        condition="NOT EXISTS (SELECT FROM artifacts a WHERE a.session_id = t.id)",
    ),
)

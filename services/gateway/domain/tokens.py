"""Bearer tokens: an API key's rights, or some of them, for an hour at most."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

LONGEST_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGrant:
    """What a token stands for. It never outlives its key, nor does it regain what the key has lost."""

    key_id: str
    scopes: frozenset[str]
    expires_at: datetime

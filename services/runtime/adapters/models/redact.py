"""Makes a provider's error message fit to be shown to a caller."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONGEST_MESSAGE = 500
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|key|sess|org|proj)[-_][A-Za-z0-9_*.\-]{4,}"
    r"|\bAIza[A-Za-z0-9_\-]{10,}"
    r"|\beyJ[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)*"
    r"|(?<=bearer )\S+"
    r"|(?<=[?&]key=)[^&\s]+"
    r"|(?<=://)[^/\s@]+(?=@)",
    re.IGNORECASE,
)


def redact(message: str, secrets: Iterable[str] = ()) -> str:
    """`message` on one line, shortened, without `secrets` and without anything that looks like one."""
    for secret in secrets:
        if secret:
            message = message.replace(secret, "***")
    message = " ".join(_SECRETS.sub("***", message).split())
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"

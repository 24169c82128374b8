"""How a caller wants to wait: the ``Prefer`` and ``Accept`` headers of execute."""

import re
from dataclasses import dataclass
from typing import Final

DEFAULT_WAIT: Final = 120.0
MAX_WAIT: Final = 600.0
_WAIT: Final = re.compile(r"wait\s*=\s*\"?(\d{1,9})\"?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Preference:
    """``wait`` in seconds; 0 when the caller does not want to wait for the turn's end."""

    wait: float = DEFAULT_WAIT
    applied: str = ""


def preference_of(prefer: str | None) -> Preference:
    """Preferences that are not understood are ignored, as RFC 7240 says."""
    if not prefer:
        return Preference()
    wait: float | None = None
    respond_async = False
    for part in prefer.lower().split(","):
        preference = part.partition(";")[0].strip()
        respond_async = respond_async or preference == "respond-async"
        matched = _WAIT.fullmatch(preference)
        if matched and wait is None:
            wait = min(float(matched[1]), MAX_WAIT)
    if respond_async:
        return Preference(wait or 0.0, "respond-async")
    return Preference() if wait is None else Preference(wait, f"wait={wait:g}")


def wants_events(accept: str | None) -> bool:
    return accept is not None and "text/event-stream" in accept.lower()

"""Which of a turn's events a follower is shown."""

from typing import Final

import orjson

from libs.contracts.envelope import Envelope
from libs.contracts.events.runtime import OutputTextDelta, OutputTextDone, TurnRestarted, TurnStarted

_TEXT: Final = frozenset({OutputTextDelta.TYPE, OutputTextDone.TYPE})
_ATTEMPTS: Final = frozenset({TurnStarted.TYPE, TurnRestarted.TYPE})


class TurnStream:
    """Leaves out text of attempts that were given up, and events that were delivered before."""

    def __init__(self) -> None:
        self._attempt = 0
        self._seen: set[str] = set()

    def passes(self, envelope: Envelope, payload: bytes) -> bool:
        if envelope.type in _TEXT:
            attempt = int(orjson.loads(payload)["attempt"])
            if attempt < self._attempt:
                return False
            self._attempt = attempt
            return True
        if envelope.id in self._seen:
            return False
        self._seen.add(envelope.id)
        if envelope.type in _ATTEMPTS:
            self._attempt = max(self._attempt, int(orjson.loads(payload)["attempt"]))
        return True

"""Sends a turn's text while it is made: the first piece at once, then what gathers in 30 ms."""

from __future__ import annotations

import asyncio
from typing import Final

from libs.contracts.events.runtime import OutputTextDelta, OutputTextDone
from services.runtime.domain.ports import DeltaSink
from services.runtime.domain.turns import ClaimedTurn

LINGER_SECONDS: Final = 0.03


class DeltaStream:
    """``offset`` counts characters from the beginning of a step's text, so that a reader can tell what is lost."""

    def __init__(self, turn: ClaimedTurn, sink: DeltaSink, *, linger: float = LINGER_SECONDS) -> None:
        self._turn = turn
        self._sink = sink
        self._linger = linger
        self._step = 0
        self._offset = 0
        self._pieces: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, piece: str, step: int) -> None:
        if not piece:
            return
        if step != self._step:
            self.finish()
            self._step = step
            self._offset = 0
        self._pieces.append(piece)
        if self._timer is None:
            # The first piece goes at once: how soon something appears is what people notice.
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(self._linger, self._gathered)

    def finish(self) -> None:
        """The step's text is complete."""
        self.abandon_timer()
        self._flush()
        if self._offset:
            self._sink.send(
                self._turn,
                OutputTextDone(
                    session_id=self._turn.session_id,
                    turn_id=self._turn.id,
                    attempt=self._turn.attempt,
                    step=self._step,
                    length=self._offset,
                ),
            )
            self._offset = 0

    def abandon_timer(self) -> None:
        """Send nothing more by itself; what has gathered may be dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _gathered(self) -> None:
        self._timer = None
        if self._pieces:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(self._linger, self._gathered)

    def _flush(self) -> None:
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        delta = OutputTextDelta(
            session_id=self._turn.session_id,
            turn_id=self._turn.id,
            attempt=self._turn.attempt,
            step=self._step,
            offset=self._offset,
            text=text,
        )
        self._offset += len(text)
        self._sink.send(self._turn, delta)

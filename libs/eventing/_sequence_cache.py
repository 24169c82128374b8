"""Subjects whose newest event this process recorded itself."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from libs.eventing._outbox_table import OutboxMessage

_REMEMBERED: Final = 10_000


class SequenceCache:
    """Knows when nothing of a subject can have been left behind by another process.

    A subject's numbers have no gaps. Whoever recorded the number before has published, or held back, all that came
    before it, so only others' numbers make it necessary to look.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[str, int] = OrderedDict()

    def continues(self, subject: str, sequence: int) -> bool:
        """Whether this event begins its subject or follows one that this process recorded."""
        return sequence == 1 or self._last.get(subject) == sequence - 1

    def last(self, subject: str) -> int:
        """The newest number of the subject that this process has handed on, 0 when it knows of none."""
        return self._last.get(subject, 0)

    def remember(self, committed: Iterable[OutboxMessage]) -> None:
        """These were recorded, in this order, by a transaction that was committed."""
        for event in committed:
            self._last[event.subject] = event.sequence
            self._last.move_to_end(event.subject)
        while len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)

"""Operations: health, lag and dead letters, for operators."""

from __future__ import annotations

from aes_client.flows import Emit, Emitting
from aes_client.models import (
    ConsumerStates,
    DeadLetter,
    DeadLetterDetail,
    DeadLetterList,
    FailureList,
    ReplayResult,
    ServiceStates,
)
from aes_client.requests import Request, given, one, path_of
from aes_client.resource import R, Resource, iteration, operation


class DeadLetters(Resource[R]):
    """``client.dead_letters``: messages that their consumers gave up."""

    @iteration
    def list(
        self, *, topic: str | None = None, correlation_id: str | None = None, replayed: bool | None = None
    ) -> Emitting[DeadLetter]:
        """Yields letters, newest first."""
        after = None
        wanted = None if replayed is None else str(replayed).lower()
        while True:
            query = given(topic=topic, correlation_id=correlation_id, replayed=wanted, after=after)
            found = yield from self._send(Request("GET", "/operations/dead-letters/", one(DeadLetterList), query=query))
            for letter in found.dead_letters:
                yield Emit(letter)
            after = found.next
            if after is None:
                return

    @operation
    def get(self, letter_id: str) -> Request[DeadLetterDetail]:
        """Returns a letter with its headers and payload."""
        return Request("GET", _path(letter_id), one(DeadLetterDetail))

    @operation
    def replay(self, letter_id: str) -> Request[ReplayResult]:
        """Sends a letter to the topic that it came from, once."""
        return Request("POST", f"{_path(letter_id)}replay/", one(ReplayResult))


class Operations(Resource[R]):
    """Health and lag of the installation."""

    @operation
    def services(self) -> Request[ServiceStates]:
        """Returns the services' health; for operators that of each replica."""
        return Request("GET", "/operations/services/", one(ServiceStates))

    @operation
    def consumers(self) -> Request[ConsumerStates]:
        """Returns how far consumer groups are behind. Takes ``installation:read``."""
        return Request("GET", "/operations/consumers/", one(ConsumerStates))

    @operation
    def failures(self, *, correlation_id: str | None = None) -> Request[FailureList]:
        """Returns the newest 100 events that report an internal error. Takes ``installation:read``."""
        query = given(correlation_id=correlation_id)
        return Request("GET", "/operations/failures/", one(FailureList), query=query)


def _path(letter_id: str) -> str:
    return path_of("/operations/dead-letters/{letter}/", letter=letter_id)

"""A producer whose broker goes away, stays silent or refuses as a test says."""

import asyncio
from asyncio import Future
from collections.abc import Callable, Collection

from libs.contracts.messages import Envelope, envelope_from
from libs.eventing.bus import BusUnavailable, Headers, MessageRefused


class FakeProducer:
    """``delivered`` is what the broker has, in its order. ``denied``: topics that it may not send to.

    It ``falls_ill`` when it tries.
    """

    def __init__(self) -> None:
        self.down = False
        self.silent = False
        self.refuses: Callable[[Envelope], bool] = lambda _: False
        self.refuses_later = False
        self.denied: Collection[str] = ()
        self.falls_ill = False
        self.delivered: list[tuple[str, str, bytes, Envelope]] = []
        self.refused = 0
        self._held: list[tuple[Future[None], tuple[str, str, bytes, Envelope]]] = []

    @property
    def envelopes(self) -> list[Envelope]:
        return [envelope for _, _, _, envelope in self.delivered]

    @property
    def healthy(self) -> bool:
        return not self.down

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def send(self, topic: str, key: str, value: bytes, headers: Headers) -> "Future[None]":
        if self.down:
            raise BusUnavailable("the fake broker is down")
        if topic in self.denied:
            self.down = self.falls_ill
            raise BusUnavailable("the fake broker does not allow it")
        envelope = envelope_from(headers)
        sent: Future[None] = asyncio.get_running_loop().create_future()
        if self.refuses(envelope):
            self.refused += 1
            if not self.refuses_later:
                raise MessageRefused("the fake broker does not like it")
            sent.set_exception(MessageRefused("the fake broker does not like it"))
            return sent
        message = (topic, key, value, envelope)
        if self.silent:
            self._held.append((sent, message))
        else:
            self.delivered.append(message)
            sent.set_result(None)
        return sent

    def lose_what_is_silent(self) -> None:
        """A message that was not acknowledged never arrived."""
        self.silent = False
        for sent, _ in self._held:
            if not sent.done():
                sent.set_exception(BusUnavailable("lost"))
        self._held.clear()

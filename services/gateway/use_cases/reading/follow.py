"""Waits for new events, and puts them in order."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol, TypeVar

from libs.contracts.errors import ServiceUnavailable

Item = TypeVar("Item")
Message = TypeVar("Message")
NewItem = TypeVar("NewItem", covariant=True)
TakenItem = TypeVar("TakenItem", contravariant=True)
NewMessage = TypeVar("NewMessage", covariant=True)
# Related events arrive over different paths, and so not always in order.
_GRACE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 4.0
_GIVE_UP_SECONDS: Final = 60.0


class Queue(Protocol[NewItem]):
    """Supplies a reader with items as they arrive."""

    async def next(self) -> Sequence[NewItem]:
        """Returns the next items, or nothing if none have arrived for a while."""

    async def wait(self, seconds: float) -> Sequence[NewItem]:
        """Returns the next items, or nothing if none arrive within ``seconds``."""


class Order(Protocol[TakenItem, NewMessage]):
    """Turns items into a reader's messages, in the reader's order."""

    @property
    def is_incomplete(self) -> bool:
        """Whether an earlier item is missing."""

    @property
    def has_ended(self) -> bool: ...

    async def take(self, items: Sequence[TakenItem]) -> Sequence[NewMessage]:
        """Accepts items. Returns the messages that can be sent now."""

    async def repair(self) -> Sequence[NewMessage]:
        """Fetches missing items. Returns the messages that can be sent now."""

    async def ask(self) -> Sequence[NewMessage]:
        """Fetches missing items whose absence leaves no gap. Called when no item has arrived for a while."""


async def follow(queue: Queue[Item], order: Order[Item, Message]) -> AsyncGenerator[Sequence[Message], None]:
    """Yields messages as items arrive. Yields an empty batch if none arrive, or if a repair finds nothing.

    Fetches items that stay missing for a quarter of a second. Raises ``ServiceUnavailable`` if that fails for a minute.
    """
    clock = asyncio.get_running_loop().time
    since: float | None = None
    ask_at = pause = 0.0
    while not order.has_ended:
        if not order.is_incomplete:
            since = None
            taken = await queue.next()
            messages = await order.take(taken) if taken else await order.ask()
        else:
            if since is None:
                since, pause = clock(), _GRACE_SECONDS
                ask_at = since + pause
            taken = await queue.wait(max(ask_at - clock(), 0.0))
            if taken:
                messages = await order.take(taken)
            elif clock() - since > _GIVE_UP_SECONDS:
                raise ServiceUnavailable(
                    "Can't read the turn's events at the moment. The turn continues; try again later.", retry_after=2
                )
            else:
                messages = await order.repair()
                pause = min(4 * pause, _LONGEST_PAUSE_SECONDS)
                ask_at = clock() + pause
        if messages or not taken:
            yield messages

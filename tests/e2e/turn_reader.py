"""A reader of a turn's stream, who goes on after every break."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.e2e.api import Api, StreamedEvent
from tests.support.waiting import WITHIN, until

ENDS = ("turn.completed", "turn.failed", "turn.cancelled")


@dataclass
class Reader:
    """Follows a turn through every break, keeping text by its place; checks that nothing is missing or comes twice."""

    api: Api
    session: str
    turn_id: str = ""
    last_id: str = ""
    events: list[StreamedEvent] = field(default_factory=list)
    texts: defaultdict[tuple[int, int], str] = field(default_factory=lambda: defaultdict(str))
    breaks: int = 0

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events if "output_text" not in event.name]

    @property
    def has_ended(self) -> bool:
        return bool(self.events) and self.events[-1].name in ENDS

    async def execute(self, content: str) -> None:
        try:
            await self._read(self.api.events(self.session, content))
        except httpx.TransportError:
            self.breaks += 1
        await self.follow()

    async def execute_for(self, events: int, content: str) -> None:
        """Leaves after that many events."""
        await self._read(self.api.events(self.session, content), events)

    async def follow_for(self, events: int) -> None:
        await self._read(self.api.follow(self.session, self.turn_id, self.last_id), events)

    async def follow(self) -> None:
        """Until the turn's end, however often the connection is lost."""
        if self.has_ended:
            return
        async with asyncio.timeout(WITHIN):
            await until(self._read_on, "the end of the turn", pause=0.3)

    async def _read_on(self) -> bool:
        try:
            await self._read(self.api.follow(self.session, self.turn_id, self.last_id))
        except (httpx.TransportError, AssertionError) as problem:
            # Refused while something is away; anything else is a finding.
            if isinstance(problem, AssertionError) and "service_unavailable" not in str(problem):
                raise
        self.breaks += not self.has_ended
        return self.has_ended

    async def _read(self, events: AsyncGenerator[StreamedEvent, None], most: int | None = None) -> None:
        async with aclosing(events):
            async for event in events:
                if event.name == "error":
                    return
                self._take(event)
                most = None if most is None else most - 1
                if most == 0:
                    return

    def _take(self, event: StreamedEvent) -> None:
        assert event.id
        assert event.id not in {seen.id for seen in self.events}
        self.events.append(event)
        self.last_id = event.id
        self.turn_id = event.data["turn_id"]
        if event.name == "turn.output_text.delta":
            place = event.data["attempt"], event.data["step"]
            assert place == max([place, *self.texts]), "text of an attempt that was given up"
            assert event.data["offset"] == len(self.texts[place])
            self.texts[place] += event.data["text"]

    def check(self) -> dict[str, Any]:
        """The turn completed, and the text put together is the reply's."""
        assert self.names[-1] == "turn.completed"
        last = self.texts[max(self.texts)]
        assert last == self.events[-1].data["response"]["content"]
        return self.events[-1].data

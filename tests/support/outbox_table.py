"""An outbox's table in which nothing waits, for relays that are tested without a database."""

from collections.abc import Sequence
from typing import Any


class FakeOutboxTable:
    async def execute(self, _statement: str, _parameters: Any = None) -> Sequence[tuple[Any, ...]]:
        """Answers the count of waiting messages and the age of the oldest."""
        return [(0, 0.0)]

"""What a turn that runs ahead of its claim's commit has to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Holds = Callable[[], Awaitable[bool]]
"""Whether the turn is this worker's; waits while its claim is being committed."""


class ClaimFuture:
    """The commit of claims whose turns have begun already.

    Until it has succeeded, such a turn may ask a model and read; it must not write, call a tool or be heard of.
    """

    def __init__(self) -> None:
        self._succeeded: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    @property
    def succeeded(self) -> bool:
        return self._succeeded.done() and self._succeeded.result()

    @property
    def failed(self) -> bool:
        return self._succeeded.done() and not self._succeeded.result()

    def settle(self, *, succeeded: bool) -> None:
        """Tell how the commit went. One whose answer got lost has failed: such a turn is found again."""
        self._succeeded.set_result(succeeded)

    async def succeeds(self) -> bool:
        if not self._succeeded.done():
            # Not the future itself: who stops waiting must not cancel it for the others.
            await asyncio.wait((self._succeeded,))
        return self._succeeded.result()


async def held() -> bool:
    """Of a turn whose claim was committed before it began."""
    return True

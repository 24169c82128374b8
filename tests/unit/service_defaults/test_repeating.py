"""The pauses of periodic work."""

import pytest

from libs.service_defaults import repeating


class Ended(Exception):
    """There is no more to do in this test."""


async def test_pauses_grow_while_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    found = iter([0, 0, 0, 3, 0, 10, 0])

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def action() -> int:
        try:
            return next(found)
        except StopIteration:
            raise Ended from None

    monkeypatch.setattr("libs.service_defaults.repeating.asyncio.sleep", sleep)
    with pytest.raises(Ended):
        await repeating.repeat_while_busy(action, 0.8, longest=1.1, full=10)

    # After a full batch there is none at all.
    assert pauses == [1.0, 1.1, 1.1, 0.8, 1.0, 1.0]

"""Retries what a consumer does with its messages, until it works or is given up."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import structlog

from libs.contracts.errors import cause_of
from libs.eventing import _metrics as metrics
from libs.eventing.bus import BusUnavailable, Overtaken, PoisonMessage, Record
from libs.eventing.dead_letters import DeadLetters
from libs.persistence import is_unreachable
from libs.retry import RetryPolicy

T = TypeVar("T")
_log = structlog.get_logger("eventing.consumer")


class GivenUp(Exception):
    """A message is poison, or has failed for too long."""

    def __init__(self, problem: Exception, attempts: int) -> None:
        self.reason = str(problem) if isinstance(problem, PoisonMessage) else repr(problem)
        self.cause = cause_of(problem)
        self.attempts = attempts
        super().__init__(self.reason)


class Attempts:
    """Counts and logs failed attempts of a group."""

    def __init__(self, group: str, policy: RetryPolicy) -> None:
        self._group = group
        self._policy = policy
        metrics.expect_retries(group)

    async def run(self, call: Callable[[], Awaitable[T]], record: Record) -> T:
        """Calls until it succeeds; ``record`` is the first message concerned. Raises ``GivenUp`` and ``Overtaken``."""
        attempts = 1

        def log(problem: Exception, attempt: int) -> None:
            nonlocal attempts
            attempts, outage = attempt + 1, is_outage(problem)
            metrics.retried(self._group, outage=outage)
            _log.warning(
                "message.retried",
                group=self._group,
                offset=record.offset,
                attempt=attempt,
                outage=outage,
                exc_info=None if outage else problem,
            )

        try:
            return await self._policy.run(call, when=_may_succeed, outage=is_outage, before_sleep=log)
        except Overtaken:
            raise
        except Exception as problem:
            raise GivenUp(problem, attempts) from problem

    async def dead_letter(
        self,
        dead_letters: DeadLetters,
        record: Record,
        failure: GivenUp,
        before: Callable[[Record, str], Awaitable[None]] | None = None,
    ) -> None:
        """Puts the message to the dead letters, after ``before``, however long that takes.

        A message whose offset moved on without a dead letter would be lost.
        """

        async def put() -> None:
            if before is not None:
                await before(record, failure.cause)
            await dead_letters.put(record, reason=failure.reason, attempts=failure.attempts)

        def log(problem: Exception, _attempt: int) -> None:
            _log.warning("message.not_dead_lettered", group=self._group, offset=record.offset, problem=repr(problem))

        await replace(self._policy, give_up_after=math.inf).run(put, before_sleep=log)


def is_outage(problem: Exception) -> bool:
    """Outages do not count towards giving up. Held locks do: a deadlock may be of the message's own making."""
    return isinstance(problem, BusUnavailable) or is_unreachable(problem)


def _may_succeed(problem: Exception) -> bool:
    return not isinstance(problem, PoisonMessage | Overtaken)

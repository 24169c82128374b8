"""Sends a dead letter to the topic that it came from, once."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import structlog

from libs.contracts.errors import Conflict
from libs.contracts.identity import Identity
from libs.eventing import ReplayOutcome, ReplayOvertaken
from libs.retry import RetryPolicy
from services.gateway.domain.operations import parse_letter_id, replay_view_of
from services.gateway.use_cases.operations.get_dead_letter import find_letter
from services.gateway.use_cases.operations.kafka_answers import answered_within
from services.gateway.use_cases.operations.list_dead_letters import ListedLetter
from services.gateway.use_cases.operations.ports import DeadLetterBox

_LIMIT_SECONDS: Final = 20.0
# Replays of two processes fence each other off when they begin together: they have to come back at different times.
_RETRIES: Final = RetryPolicy(first=0.5, longest=2.0, attempts=6)
_log = structlog.get_logger("operations")


@dataclass(frozen=True, slots=True)
class Replayed:
    """``repeated``: it had been replayed before, and nothing was sent now."""

    listed: ListedLetter
    repeated: bool


@dataclass(frozen=True, slots=True)
class ReplayDeadLetter:
    """One at a time in this process. Another process that replays the same topic is waited for by trying again."""

    box: DeadLetterBox
    retries: RetryPolicy = _RETRIES
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, writer: Identity, letter_id: str) -> Replayed:
        """Raises ``PermissionDenied``, ``NotFound``, ``ServiceUnavailable``, and ``Conflict`` for one that has to stay.

        After ``ServiceUnavailable`` it may have been sent; asking again is safe.
        """
        view = replay_view_of(writer)
        parse_letter_id(letter_id)
        about = {"letter": letter_id, "user_id": writer.user_id, "key_id": writer.key_id}
        async with answered_within(_LIMIT_SECONDS), self.turn, self.box.open() as session:
            found = await find_letter(session, view, letter_id)
            _log.info("dead_letter.replay_asked", **about, company_id=writer.company_id, of=found.letter.company_id)
            outcome = (
                ReplayOutcome(found.letter.offset, repeated=True)
                if found.replayed
                else await self.retries.run(
                    lambda: session.replay(found.topic, found.letter.offset), on=ReplayOvertaken
                )
            )
        if outcome.refusal and not outcome.repeated:
            _log.info("dead_letter.replay_refused", **about, reason=outcome.refusal)
            raise Conflict(outcome.refusal)
        _log.info("dead_letter.replayed", **about, repeated=outcome.repeated)
        return Replayed(ListedLetter(found.topic, found.letter, replayed=True), outcome.repeated)

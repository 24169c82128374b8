"""Builders and fakes around single turns, for unit tests of the turn engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from libs.contracts.errors import StoreUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.contracts.resources.turns import TurnRequest
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.conversation import Message, TextPart, UserMessage
from services.runtime.domain.ports import SessionAgent
from services.runtime.domain.steps import Step
from services.runtime.domain.turns import ClaimedTurn, CommitResult, StepRecord, Submission, TurnOutcome

CALLER = Identity(company_id="company", user_id="user", key_id="key", scopes=frozenset())


def claimed_turn(**changes: object) -> ClaimedTurn:
    turn_id = str(changes.pop("id", None) or new_id())
    fields: dict[str, object] = {
        "session_id": "session",
        "position": 0,
        "attempt": 1,
        "fence": 1,
        "user_message_id": "message",
        "caller": CALLER,
        "message_context": MessageContext("company", "label", turn_id),
        "request": TurnRequest(),
        "stream": True,
        "seconds_left": 60.0,
        "sequence": 1,
    }
    return ClaimedTurn(id=turn_id, **{**fields, **changes})  # type: ignore[arg-type]


def submission(session_id: str = "session", caller: Identity = CALLER, **changes: object) -> Submission:
    turn_id = str(changes.pop("turn_id", None) or new_id())
    fields: dict[str, object] = {
        "request": TurnRequest(),
        "question": UserMessage((TextPart("hello"),)),
        "blocks": None,
    }
    message_context = MessageContext(caller.company_id, "label", turn_id)
    return Submission(turn_id, session_id, new_id(), caller, message_context, **{**fields, **changes})  # type: ignore[arg-type]


class MemoryConversations:
    """A ConversationStore: what was said by turn position; ``reads`` counts the look-ups of messages."""

    def __init__(self, said: dict[int, list[Message]] | None = None) -> None:
        self.said = said or {}
        self.reads: list[tuple[int, int]] = []
        self.unavailable = 0

    async def agent(self, _session_id: str, /) -> SessionAgent | None:
        if self.unavailable:
            self.unavailable -= 1
            raise StoreUnavailable("away")
        return SessionAgent(AgentSpec("llm_agent"), "hash")

    async def messages(self, _session_id: str, after: int, through: int) -> list[tuple[int, Message]]:
        self.reads.append((after, through))
        return [
            (position, message)
            for position, messages in sorted(self.said.items())
            for message in messages
            if after < position <= through
        ]

    async def steps(self, _turn_id: str, /) -> list[Step]:
        return []

    async def allowed_calls(self, _turn_id: str, /) -> dict[str, str]:
        return {}


class MemoryTurns:
    """TurnOutcomes and a recorder of steps that keep what they are given; ``unavailable`` calls fail first."""

    def __init__(self, *, unavailable: int = 0) -> None:
        self.outcomes: list[TurnOutcome] = []
        self.steps: list[StepRecord] = []
        self.unavailable = unavailable
        self.next_turns: list[ClaimedTurn] = []
        self.claimed_in: list[set[str]] = []
        self.refuse_replies = False

    async def commit(self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]) -> list[CommitResult]:
        self._answer()
        if self.refuse_replies and any(outcome.text for outcome in outcomes):
            raise ValueError("this cannot be stored")
        self.outcomes.extend(outcomes)
        self.claimed_in.append(set(claim_in))
        next_turn = self.next_turns.pop(0) if claim_in and self.next_turns else None
        return [CommitResult(True, next_turn), *[CommitResult(True) for _ in outcomes[1:]]]

    async def record_steps(self, steps: Sequence[StepRecord]) -> list[bool]:
        self._answer()
        self.steps.extend(steps)
        return [True for _ in steps]

    def _answer(self) -> None:
        if self.unavailable:
            self.unavailable -= 1
            raise StoreUnavailable("away")


class NoMetrics:
    """TurnMetrics that count nothing."""

    def ended(self, outcome: TurnOutcome, *, applied: bool, seconds: float) -> None: ...

    def observed(self, *, running: int, queued: int) -> None: ...

    def open_waits(self, number: int) -> None: ...

    def taken_over(self, turns: int) -> None: ...

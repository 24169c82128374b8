"""Runs a claimed turn and builds the outcome to commit."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

import structlog

from libs.contracts.errors import InternalError, ServiceError, TimedOut
from libs.contracts.identifiers import new_id
from libs.contracts.replies import Usage as WireUsage
from libs.contracts.resources.turns import CitationAdded, TurnCompleted
from services.runtime.domain.agents import AgentLoop, AgentReply, AgentTask, TurnLost, TurnWaits
from services.runtime.domain.beginnings import NewSession, history_of
from services.runtime.domain.conversation import Message, Usage, UserMessage, message_size
from services.runtime.domain.models import AnswerRefused, NoPrices, Prices, PriceTable, priced
from services.runtime.domain.ports import ConversationStore, DeltaSink, SessionAgent
from services.runtime.domain.steps import Step, calls_made, toolsets_to_json
from services.runtime.domain.turns import ClaimedTurn, OutcomeKind, StepRecord, TurnOutcome, crashed, failed
from services.runtime.use_cases.engine.commits import (
    ClaimFuture,
    DatabaseJournal,
    DeltaStream,
    GroupCommit,
    TurnWatch,
    until_available,
)

_log = structlog.get_logger("runtime.turns")
_MESSAGE_CHARACTERS = 200


@dataclass(slots=True)
class _Conversation:
    """A cached conversation. ``through`` is the position of its last turn."""

    agent: SessionAgent
    messages: list[Message] = field(default_factory=list)
    through: int = -1
    size: int = 0

    def extend(self, messages: Sequence[Message], through: int) -> None:
        self.messages.extend(messages)
        self.size += sum(message_size(message) + _MESSAGE_CHARACTERS for message in messages)
        self.through = through


@dataclass(frozen=True, slots=True)
class TurnContext:
    agent: SessionAgent
    history: Sequence[Message]
    question: UserMessage


class ConversationCache:
    """Caches recent conversations, up to ``capacity`` characters. Only messages after the cached ones are read."""

    def __init__(self, store: ConversationStore, *, capacity: int = 64_000_000) -> None:
        self._store = store
        self._capacity = capacity
        self._known: OrderedDict[str, _Conversation] = OrderedDict()
        self._size = 0

    async def context(self, turn: ClaimedTurn, question: UserMessage | None) -> TurnContext:
        """Returns the agent's input. If ``question`` is None, it's read from the database.

        Raises TurnLost if the turn's session has been deleted.
        """
        conversation = await self._conversation(turn)
        if conversation.through < turn.position - 1:
            await self._read(turn, conversation, turn.position - 1)
        if conversation.through >= turn.position:
            conversation = _Conversation(conversation.agent)
            await self._read(turn, conversation, turn.position - 1)
        if question is None:
            question = await self._question(turn)
        return TurnContext(conversation.agent, tuple(conversation.messages), question)

    def prime(self, session: NewSession) -> None:
        """Caches a session that is about to be committed, because its first turn may run before it can be read."""
        conversation = _Conversation(SessionAgent(session.agent, session.config_hash, session.agent_id), size=1000)
        conversation.extend(session.messages, session.next_position - 1)
        self.forget(session.id)
        self._known[session.id] = conversation
        self._grow(conversation.size)

    def remember(self, turn: ClaimedTurn, messages: Sequence[Message]) -> None:
        """Adds an ended turn's messages to the cached conversation. For a failed turn, ``messages`` is empty."""
        conversation = self._known.get(turn.session_id)
        if conversation is not None and conversation.through == turn.position - 1:
            before = conversation.size
            conversation.extend(messages, turn.position)
            self._grow(conversation.size - before)

    def forget(self, session_id: str) -> None:
        """Removes the session's conversation from the cache."""
        forgotten = self._known.pop(session_id, None)
        if forgotten is not None:
            self._size -= forgotten.size

    async def _conversation(self, turn: ClaimedTurn) -> _Conversation:
        session_id = turn.session_id
        known = self._known.get(session_id)
        if known is None:
            agent = await self._store.agent(session_id)
            if agent is None:
                raise TurnLost(turn.id)
            read = _Conversation(agent, size=1000)
            known = self._known.setdefault(session_id, read)
            # Another execution in the session may have added it meanwhile.
            if known is read:
                self._grow(known.size)
        self._known.move_to_end(session_id)
        return known

    async def _read(self, turn: ClaimedTurn, conversation: _Conversation, through: int) -> None:
        while conversation.through < through:
            after = conversation.through
            rows = await self._store.messages(turn.session_id, after, through)
            if conversation.through != after:
                # Meanwhile, a stale execution in the same session has read messages, too, but possibly fewer.
                continue
            before = conversation.size
            conversation.extend([message for _, message in rows], through)
            if self._known.get(turn.session_id) is conversation:
                self._grow(conversation.size - before)

    async def _question(self, turn: ClaimedTurn) -> UserMessage:
        rows = await self._store.messages(turn.session_id, turn.position - 1, turn.position)
        for _, message in rows:
            if isinstance(message, UserMessage):
                return message
        raise TurnLost(turn.id)

    def _grow(self, by: int) -> None:
        self._size += by
        while self._size > self._capacity and len(self._known) > 1:
            _, forgotten = self._known.popitem(last=False)
            self._size -= forgotten.size


@dataclass(frozen=True, slots=True)
class RunTurn:
    agent: AgentLoop
    cache: ConversationCache
    store: ConversationStore
    steps: GroupCommit[StepRecord, bool]
    deltas: DeltaSink
    prices: Prices = field(default_factory=NoPrices)
    attempts: int = 3

    async def __call__(
        self, turn: ClaimedTurn, question: UserMessage | None, claim: ClaimFuture, watch: TurnWatch
    ) -> TurnOutcome | None:
        """Runs the turn and returns its outcome, or None if this worker has lost the turn. Errors become outcomes."""
        try:
            async with asyncio.timeout(max(turn.seconds_left, 0.0)) as deadline:
                return await self._answer(turn, question, claim, watch)
        except TurnLost:
            return None
        except Exception as problem:
            return self._ended_by(problem, turn, overdue=deadline.expired())

    def _ended_by(self, problem: Exception, turn: ClaimedTurn, *, overdue: bool) -> TurnOutcome:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # Errors while a stopped execution ends, for example from a closed client, must not end the turn.
            raise asyncio.CancelledError from problem
        if isinstance(problem, ServiceError) and not isinstance(problem, InternalError):
            _log.info("turn.refused", turn_id=turn.id, kind=problem.kind, attempt=turn.attempt)
            return failed(turn, problem, _wire(problem.usage) if isinstance(problem, AnswerRefused) else None)
        # A TimeoutError from a library counts as a crash, like any other exception.
        if overdue:
            return failed(turn, TimedOut("The turn didn't end before its deadline."))
        _log.error("turn.crashed", turn_id=turn.id, attempt=turn.attempt, exc_info=problem)
        return crashed(turn, "The turn failed because of an internal error. Try again.", problem, self.attempts)

    async def _answer(
        self, turn: ClaimedTurn, question: UserMessage | None, claim: ClaimFuture, watch: TurnWatch
    ) -> TurnOutcome:
        began = monotonic()
        deltas = DeltaStream(turn, self.deltas, claim)
        watch.on_request = deltas.send_again
        try:
            recorded: list[Step] = []
            allowed: dict[str, str] = {}
            # A first execution has no steps, so it skips the queries.
            if turn.fence > 1:
                recorded = await until_available(lambda: self.store.steps(turn.id))
                allowed = await until_available(lambda: self.store.allowed_calls(turn.id))
            context = await until_available(lambda: self.cache.context(turn, question))
            task = AgentTask(
                turn_id=turn.id,
                session_id=turn.session_id,
                caller=turn.caller,
                agent=context.agent.spec.with_options(turn.request.options),
                history=context.history,
                question=context.question,
                answered=_answered(turn, context.history),
                request=turn.request,
            )
            journal = DatabaseJournal(turn, recorded, self.steps, deltas, claim, watch, allowed)
            ended = await self.agent.run(task, journal)
            if turn.stream:
                await journal.confirm()
            deltas.finish()
        finally:
            deltas.stop_timer()
        if isinstance(ended, TurnWaits):
            return TurnOutcome(turn, OutcomeKind.WAITING, waits=ended.waits)
        seconds = round(turn.worked + monotonic() - began, 3)
        sequence = None if question is None else journal.sequence
        outcome = _completed(turn, context, ended, seconds, self.prices.table, sequence)
        return replace(outcome, calls_made=calls_made(journal.steps)) if journal.steps else outcome


def _wire(usage: Usage) -> WireUsage:
    return WireUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, model_calls=usage.model_calls)


def _answered(turn: ClaimedTurn, history: Sequence[Message]) -> Sequence[Message]:
    calls = turn.request.client_calls
    return () if calls is None else history_of(calls.answered, history)


def _completed(
    turn: ClaimedTurn, context: TurnContext, reply: AgentReply, seconds: float, prices: PriceTable, sequence: int | None
) -> TurnOutcome:
    """Returns the outcome of a completed turn.

    The reply is encoded only once, so that the event, its outbox row and the response have the same bytes.
    """
    message_id = new_id()
    # PostgreSQL can't store NUL in text, and the history must match the event.
    text = reply.text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    model = context.agent.spec.model
    used = _wire(reply.usage).model_copy(update={"tool_calls": len(reply.tool_calls), "seconds": seconds})
    usage = priced(used, model, prices)
    event = TurnCompleted.model_validate(
        {
            "message_id": message_id,
            "response": {**reply.to_json(), "content": text},
            "correlation_id": turn.message_context.correlation_id,
            "session_id": turn.session_id,
            "turn_id": turn.id,
            "user_message_id": turn.user_message_id,
            "usage": usage,
            "agent_id": context.agent.agent_id,
            "model": model,
            "user_id": turn.caller.user_id,
            "key_id": turn.caller.key_id,
            "config_hash": context.agent.config_hash,
            "warnings": list(reply.warnings),
            "finish_reason": _finish_reason(reply),
        }
    )
    return TurnOutcome(
        turn,
        OutcomeKind.COMPLETED,
        event=event,
        payload=event.encode(),
        message_id=message_id,
        text=text,
        usage=usage,
        toolsets=toolsets_to_json(reply.toolsets) if reply.toolsets else None,
        preceding=tuple(
            CitationAdded(session_id=turn.session_id, turn_id=turn.id, citation=citation)
            for citation in event.response.citations
            if citation.knowledge_base_id or citation.file_id or citation.artifact_id
        ),
        sequence=sequence,
    )


def _finish_reason(reply: AgentReply) -> str:
    """Maps the model's finish reason to the API's. A provider-specific reason counts as stop."""
    if reply.requested:
        return "tool_calls"
    return reply.finish_reason if reply.finish_reason in ("length", "content_filter") else "stop"

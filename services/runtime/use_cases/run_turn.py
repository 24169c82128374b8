"""Executes one claimed turn: what the agent is given, and what its outcome becomes."""

from __future__ import annotations

import asyncio

import structlog

from libs.contracts.api.sessions import Usage as WireUsage
from libs.contracts.errors import InternalError, ServiceError, TimedOut
from libs.contracts.events.runtime import CitationAdded, TurnCompleted
from libs.contracts.identifiers import new_id
from services.runtime.domain import turn_events
from services.runtime.domain.agent_ports import AgentLoop, AgentReply, AgentTask, RecordedStep, TurnLost
from services.runtime.domain.conversation import AssistantMessage, UserMessage
from services.runtime.domain.conversation_json import answer_to_json
from services.runtime.domain.ports import ConversationStore, DeltaSink
from services.runtime.domain.reply_json import reply_to_json
from services.runtime.domain.turns import ClaimedTurn, OutcomeKind, StepRecord, TurnOutcome
from services.runtime.use_cases.engine.claim_future import Holds, held
from services.runtime.use_cases.engine.conversation_cache import ConversationCache, SessionGone, TurnContext
from services.runtime.use_cases.engine.delta_stream import DeltaStream
from services.runtime.use_cases.engine.group_commit import GroupCommit
from services.runtime.use_cases.engine.retry_until_available import retry_until_available
from services.runtime.use_cases.engine.turn_journal import DatabaseJournal

_log = structlog.get_logger("runtime.turns")


class RunTurn:
    def __init__(
        self,
        agent: AgentLoop,
        cache: ConversationCache,
        store: ConversationStore,
        steps: GroupCommit[StepRecord, bool],
        deltas: DeltaSink,
    ) -> None:
        self._agent = agent
        self._cache = cache
        self._store = store
        self._steps = steps
        self._deltas = deltas

    async def run(self, turn: ClaimedTurn, question: UserMessage | None, holds: Holds = held) -> TurnOutcome | None:
        """The ending to commit; None when the turn is no longer this worker's. Errors become failures.

        The ending may be ready before the claim is committed; what is recorded or streamed waits for it here.
        """
        try:
            async with asyncio.timeout(max(turn.seconds_left, 0.0)) as deadline:
                return await self._answer(turn, question, holds)
        except (TurnLost, SessionGone):
            return None
        except ServiceError as error:
            _log.info("turn.refused", turn_id=turn.id, kind=error.kind, attempt=turn.attempt)
            return failure(turn, error)
        except TimeoutError:
            # A TimeoutError of a library's own is a crash like any other.
            if deadline.expired():
                return failure(turn, TimedOut("the turn did not end before its deadline"))
            _log.exception("turn.crashed", turn_id=turn.id, attempt=turn.attempt)
        except Exception:
            _log.exception("turn.crashed", turn_id=turn.id, attempt=turn.attempt)
        return failure(turn, InternalError("the turn failed because of an error of the service"))

    async def _answer(self, turn: ClaimedTurn, question: UserMessage | None, holds: Holds) -> TurnOutcome:
        if turn.stream and not await holds():
            raise TurnLost(turn.id)
        deltas = DeltaStream(turn, self._deltas)
        try:
            recorded: list[RecordedStep] = []
            # A first attempt cannot have any, and this saves it a query.
            if turn.attempt > 1:
                recorded = await retry_until_available(lambda: self._store.steps(turn.id), turn_id=turn.id)
            context = await retry_until_available(lambda: self._cache.context(turn, question), turn_id=turn.id)
            task = AgentTask(
                turn_id=turn.id,
                session_id=turn.session_id,
                caller=turn.caller,
                agent=context.agent.spec,
                history=context.history,
                question=context.question,
            )
            reply = await self._agent.run(task, DatabaseJournal(turn, recorded, self._steps, deltas, holds))
            deltas.finish()
        finally:
            deltas.abandon_timer()
        return completion(turn, context, reply)

    def remember(self, turn: ClaimedTurn, question: UserMessage | None, ending: TurnOutcome) -> None:
        """Keep in memory what the committed ending added to the conversation."""
        if ending.kind is OutcomeKind.FAILED:
            self._cache.remember(turn, ())
        elif ending.kind is OutcomeKind.COMPLETED and question is not None:
            self._cache.remember(turn, (question, AssistantMessage(ending.text)))


def completion(turn: ClaimedTurn, context: TurnContext, reply: AgentReply) -> TurnOutcome:
    """The reply as it will stand everywhere: its bytes are made once."""
    message_id = new_id()
    # PostgreSQL's text has no NUL; the history and the event must say the same.
    text = reply.text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    usage = WireUsage(
        input_tokens=reply.usage.input_tokens,
        output_tokens=reply.usage.output_tokens,
        model_calls=reply.usage.model_calls,
    )
    event = TurnCompleted.model_validate(
        {
            "message_id": message_id,
            "response": {**reply_to_json(reply), "content": text},
            "correlation_id": turn.message_context.correlation_id,
            "session_id": turn.session_id,
            "turn_id": turn.id,
            "user_message_id": turn.user_message_id,
            "usage": usage,
            "config_hash": context.agent.config_hash,
            "warnings": list(reply.warnings),
        }
    )
    return TurnOutcome(
        turn,
        OutcomeKind.COMPLETED,
        event=event,
        payload=event.encode(),
        message_id=message_id,
        text=text,
        usage=usage.model_dump(),
        final_step=reply.steps,
        final_answer=answer_to_json(reply.final),
        leading=tuple(
            CitationAdded(session_id=turn.session_id, turn_id=turn.id, citation=citation)
            for citation in event.response.citations
            if citation.knowledge_base_id or citation.file_id or citation.artifact_id
        ),
    )


def failure(turn: ClaimedTurn, error: ServiceError) -> TurnOutcome:
    event = turn_events.failed(turn, error)
    return TurnOutcome(turn, OutcomeKind.FAILED, event=event, error=event.error.model_dump(mode="json"))

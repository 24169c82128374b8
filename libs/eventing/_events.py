"""Handles each event of other services once."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog
from pydantic import ValidationError

from libs.contracts.messages import (
    Command,
    CommandRejected,
    Envelope,
    Event,
    MessageContext,
    PoisonMessage,
    envelope_from,
)
from libs.eventing import _inbox as inbox
from libs.eventing import _metrics as metrics
from libs.eventing._outbox import Outbox, Transaction
from libs.eventing.bus import Record
from libs.eventing.messages import PayloadReader, process_span
from libs.tracing import current_traceparent

_log = structlog.get_logger("eventing.events")
E = TypeVar("E", bound=Event)
React = Callable[[Transaction, E, Envelope], Awaitable[None]]


class EventRouter:
    """Routes events to reactions. Each reaction runs in one transaction with the event's inbox row."""

    def __init__(self, outbox: Outbox, payloads: PayloadReader, *, consumer: str) -> None:
        self._outbox = outbox
        self._payloads = payloads
        self._consumer = consumer
        self._routes: dict[str, tuple[type[Event], React[Any]]] = {}
        self._topics: set[str] = set()

    @property
    def topics(self) -> list[str]:
        """Returns the topics with registered reactions."""
        return sorted(self._topics)

    def on(self, event: type[E], react: React[E]) -> None:
        self._routes[event.TYPE] = (event, react)
        self._topics.add(event.TOPIC.name)

    def on_rejected(self, command: type[Command], react: React[CommandRejected]) -> None:
        """Registers a reaction to a command's rejection event, whose causation ID is the command's ID."""
        self._routes[command.rejected_type()] = (CommandRejected, react)
        self._topics.update(outcome.TOPIC.name for outcome in command.OUTCOMES)

    async def deliver(self, record: Record) -> None:
        """Handles the event in a record. Ignores unknown types. Raises ``PoisonMessage``."""
        envelope = envelope_from(record.headers)
        if envelope.type not in self._routes:
            return
        structlog.contextvars.bind_contextvars(correlation_id=envelope.correlation_id, event_id=envelope.id)
        with process_span(record.topic, envelope):
            await self._react(record, envelope)

    async def _react(self, record: Record, envelope: Envelope) -> None:
        model, react = self._routes[envelope.type]
        trace = current_traceparent() or envelope.traceparent
        context = MessageContext(
            envelope.company_id, envelope.correlation_id, envelope.id, trace, owner_id=envelope.owner_id
        )
        try:
            event = model.decode(await self._payloads.read(envelope, record.value))
            async with self._outbox.transaction(context) as transaction:
                await inbox.enter(transaction.connection, self._consumer, envelope.id, envelope.company_id)
                await react(transaction, event, envelope)
        except ValidationError as problem:
            raise PoisonMessage(
                f"the payload isn't a valid {envelope.type} (errors: {problem.error_count()})"
            ) from problem
        except inbox.AlreadyProcessed:
            metrics.inbox_hits(self._consumer).inc()
            _log.debug("event.redelivered", event_id=envelope.id)

    async def give_up(self, record: Record, cause: str) -> None:
        """Does nothing, since no caller waits for a reaction."""

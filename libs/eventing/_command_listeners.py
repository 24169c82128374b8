"""Listeners within this process to the events that a command causes."""

import structlog

from libs.contracts.envelope import Envelope
from libs.eventing._messages import OnEvent

_log = structlog.get_logger("eventing.listeners")


class CommandListeners:
    """Publishes events that this process commits or makes to listeners, before the bus has them."""

    def __init__(self) -> None:
        self._by_command: dict[str, list[OnEvent]] = {}

    def add(self, command_id: str, listener: OnEvent) -> None:
        self._by_command.setdefault(command_id, []).append(listener)

    def remove(self, command_id: str, listener: OnEvent) -> None:
        """Does nothing for one that was removed already."""
        listening = self._by_command.get(command_id, [])
        if listener in listening:
            listening.remove(listener)
        if not listening:
            self._by_command.pop(command_id, None)

    def has_any(self, command_id: str | None) -> bool:
        """Whether anybody listens to this command's events."""
        return command_id in self._by_command

    def publish(self, envelope: Envelope, payload: bytes) -> None:
        """Never fails: the event is committed, and goes on to the bus."""
        for listener in tuple(self._by_command.get(envelope.causation_id or "", ())):
            try:
                listener(envelope, payload)
            except Exception:
                _log.exception("event.listener_failed", type=envelope.type, event_id=envelope.id)

"""Examples of messages, as they are on the bus: a resource gives payloads, and the envelopes follow from them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from libs.contracts.errors import ServiceError
from libs.contracts.messages import Command, CommandRejected, Envelope, Message
from libs.contracts.topics import Topic, TopicKind, topic_of

_LABEL: Final = "ferry-desk-2026-05-04"
COMPANY: Final = "01980f4e-2b6a-7c11-9a53-6f0f1d8e4b01"
_CALLER: Final = "01980f4e-2c05-7d42-8e1b-0b9a7c3d5e02"
_TRACE: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass(frozen=True, slots=True)
class Example:
    """A message about ``subject``, None for a command's own id. ``refused``: the command that a refusal ends."""

    message: Message
    subject: str | None = None
    owner_id: str | None = None
    refused: type[Command] | None = None

    @property
    def type(self) -> str:
        return self.message.TYPE if self.refused is None else self.refused.rejected_type()

    @property
    def topic(self) -> Topic:
        return self.message.TOPIC if self.refused is None else topic_of(self.refused.TOPIC.owner, TopicKind.EVENTS)


def refusal(command: type[Command], error: ServiceError, subject: str | None = None) -> Example:
    return Example(CommandRejected(error=error.info(_LABEL)), subject, refused=command)


def records(examples: Iterable[Example]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The type of each message, and its record on the bus as JSON-ready data."""
    for number, each in enumerate(examples, start=1):
        headers = _envelope(each, f"01980f60-2222-7a2b-8c3d-4e5f6a7b8c{number:02}").attributes()
        payload = json.loads(each.message.encode())
        yield each.type, {"topic": each.topic.name, "key": _LABEL, "headers": headers, "payload": payload}


def _envelope(example: Example, message_id: str) -> Envelope:
    event = Envelope(
        id=message_id,
        type=example.type,
        source=f"/aes/{example.topic.owner}",
        subject=example.subject or message_id,
        time="2026-05-04T08:16:15.239240Z",
        correlation_id=_LABEL,
        company_id=COMPANY,
        causation_id="01980f5f-0154-7e47-9f50-4d5e6f7a8b15",
        owner_id=example.owner_id,
        sequence=2,
        traceparent=_TRACE,
    )
    if example.refused is not None:
        cause = "01980f55-2a21-7d36-8e4f-3c4d5e6f7b01"
        refused_at = "2026-05-04T08:16:31.365944Z"
        return replace(event, time=refused_at, causation_id=cause, owner_id=_CALLER, sequence=1)
    if not isinstance(example.message, Command):
        return event
    return replace(
        event,
        # What a command makes gets its id.
        id=message_id if example.message.SUBJECT else event.subject,
        source="/aes/gateway",
        time="2026-05-04T08:16:09.191726Z",
        causation_id=None,
        owner_id=None,
        sequence=0,
        expires_at="2026-05-04T08:18:09.191726Z",
        identity="<signed by the gateway>",
    )

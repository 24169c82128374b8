"""The state of services and consumers, and the dead-lettered messages, for operators."""

from typing import Any, Literal

from pydantic import BaseModel

from libs.contracts.timestamps import Timestamp


class Replica(BaseModel):
    """A process of a service. ``reason`` says what the process is waiting for, or why it couldn't be queried."""

    address: str
    status: Literal["ready", "not ready", "unreachable"]
    version: str | None
    reason: str


class ServiceState(BaseModel):
    """The state of a service. ``ready`` counts the replicas that are ready. Only operators see ``replicas``."""

    service: str
    status: Literal["ready", "degraded", "unavailable"]
    ready: int
    total: int
    replicas: list[Replica]


class ServiceStates(BaseModel):
    """The state of every service."""

    services: list[ServiceState]
    checked_at: Timestamp


class PartitionState(BaseModel):
    """A consumer group's position in a partition. ``committed`` is ``null`` before the group's first commit."""

    partition: int
    committed: int | None
    end: int
    lag: int


class ConsumerState(BaseModel):
    """A consumer group's lag on one topic. ``state`` is the group's state in Kafka."""

    group: str
    topic: str
    state: str
    members: int
    lag: int
    partitions: list[PartitionState]


class ConsumerStates(BaseModel):
    """The lag of every consumer group. ``lag`` is the total of all groups."""

    consumers: list[ConsumerState]
    lag: int
    measured_at: Timestamp


class Failure(BaseModel):
    """An internal error that an event reports. ``cause`` is the type and location of the underlying exception."""

    service: str
    type: str
    subject: str
    company_id: str
    correlation_id: str
    at: Timestamp
    cause: str


class FailureList(BaseModel):
    """Internal errors, newest first. ``unreachable`` lists the services that couldn't be queried."""

    failures: list[Failure]
    unreachable: list[str]


class DeadLetterCause(BaseModel):
    """The reason why a message was dead-lettered.

    ``code`` is the error's name, or ``poison_message`` for an unreadable message.
    """

    code: str
    message: str


class DeadLetter(BaseModel):
    """A message that a consumer couldn't process. ``replayed`` is true once the message has been sent again."""

    id: str
    topic: str
    source_topic: str
    consumer: str
    type: str | None
    event_id: str | None
    company_id: str | None
    correlation_id: str | None
    cause: DeadLetterCause
    attempts: int | None
    dead_since: Timestamp
    replayed: bool
    payload_bytes: int


class TopicLetters(BaseModel):
    """The number of dead-lettered messages in a topic."""

    topic: str
    letters: int
    not_replayed: int


class DeadLetterList(BaseModel):
    """Dead-lettered messages. Pass ``next`` as ``after`` to get the next page.

    On the last page, ``next`` is ``null``. Only operators see ``topics``.
    """

    dead_letters: list[DeadLetter]
    has_more: bool
    next: str | None
    topics: list[TopicLetters]


class DeadLetterPayload(BaseModel):
    """The payload of a dead-lettered message. ``value`` is JSON without secrets.

    If the payload is hidden, ``value`` is ``null`` and ``note`` explains why.
    """

    value: Any
    note: str | None


class DeadLetterDetail(DeadLetter):
    """A dead-lettered message with its ``partition`` and ``offset``. Headers that may contain secrets are hidden."""

    partition: int | None
    offset: int | None
    headers: dict[str, str]
    payload: DeadLetterPayload


class ReplayResult(BaseModel):
    """A replayed message. If ``repeated`` is true, an earlier request replayed it, and this request sent nothing."""

    dead_letter: DeadLetter
    repeated: bool

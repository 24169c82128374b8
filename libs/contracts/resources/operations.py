"""Operations: states of services and consumers, for operators."""

from typing import Any, Literal

from pydantic import BaseModel

from libs.contracts.timestamps import Timestamp


class Replica(BaseModel):
    """One process. ``reason``: what it waits for, or why it couldn't be asked."""

    address: str
    status: Literal["ready", "not ready", "unreachable"]
    version: str | None
    reason: str


class ServiceState(BaseModel):
    """``ready`` of ``total`` replicas; ``replicas`` are listed for operators of the installation only."""

    service: str
    status: Literal["ready", "degraded", "unavailable"]
    ready: int
    total: int
    replicas: list[Replica]


class ServiceStates(BaseModel):
    services: list[ServiceState]
    checked_at: Timestamp


class PartitionState(BaseModel):
    """``committed`` is null before the group's first commit."""

    partition: int
    committed: int | None
    end: int
    lag: int


class ConsumerState(BaseModel):
    """A consumer group at one topic. ``state`` is Kafka's state of the group."""

    group: str
    topic: str
    state: str
    members: int
    lag: int
    partitions: list[PartitionState]


class ConsumerStates(BaseModel):
    consumers: list[ConsumerState]
    lag: int
    measured_at: Timestamp


class Failure(BaseModel):
    """An event that reports an internal error. ``cause`` is the type and location of the exception behind it."""

    service: str
    type: str
    subject: str
    company_id: str
    correlation_id: str
    at: Timestamp
    cause: str


class FailureList(BaseModel):
    """``unreachable`` services couldn't be asked."""

    failures: list[Failure]
    unreachable: list[str]


class DeadLetterCause(BaseModel):
    """``code`` is the error's name, or ``poison_message`` for an unreadable message."""

    code: str
    message: str


class DeadLetter(BaseModel):
    """A message that its consumer failed to process. ``replayed``: it has been sent again."""

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
    topic: str
    letters: int
    not_replayed: int


class DeadLetterList(BaseModel):
    """``next`` goes into ``after``, null at the end. ``topics``, those with messages, is for operators only."""

    dead_letters: list[DeadLetter]
    has_more: bool
    next: str | None
    topics: list[TopicLetters]


class DeadLetterPayload(BaseModel):
    """``value`` is JSON without secrets; null if ``note`` says why it is hidden."""

    value: Any
    note: str | None


class DeadLetterDetail(DeadLetter):
    """``partition`` and ``offset`` of the message in its topic; headers that may contain secrets are hidden."""

    partition: int | None
    offset: int | None
    headers: dict[str, str]
    payload: DeadLetterPayload


class ReplayResult(BaseModel):
    """A replayed message. ``repeated``: it was replayed before, and nothing was sent now."""

    dead_letter: DeadLetter
    repeated: bool

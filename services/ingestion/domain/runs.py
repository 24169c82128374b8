"""Ingestion runs of knowledge bases, and their work items."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import orjson

from libs.contracts.identifiers import new_id
from libs.contracts.messages import MessageContext
from services.ingestion.domain.files import TextKey
from services.ingestion.domain.knowledge_bases import IndexSettings, RunState

Token = str
"""Fencing token of a claim."""


class Claims(set[Token]):
    """The claims whose leases must be renewed."""

    @contextmanager
    def held(self) -> Iterator[Token]:
        """Yields a new token, which is held until the end of the context."""
        token = new_id()
        self.add(token)
        try:
            yield token
        finally:
            self.discard(token)


@dataclass(frozen=True, slots=True)
class ItemKey:
    """Identifies an item: a file to add to an index, or to remove from it."""

    index_id: str
    file_id: str


@dataclass(frozen=True, slots=True)
class RunKey:
    """Identifies a run that must be planned or finished."""

    run_id: str


WorkKey = ItemKey | RunKey


def encode_work(keys: Sequence[WorkKey]) -> bytes:
    return orjson.dumps([[key.run_id] if isinstance(key, RunKey) else [key.index_id, key.file_id] for key in keys])


def decode_work(value: bytes) -> list[WorkKey]:
    """Decodes a message. Returns an empty list if the message is malformed."""
    try:
        return [RunKey(*ids) if len(ids) == 1 else ItemKey(*ids) for ids in orjson.loads(value)]
    except (orjson.JSONDecodeError, TypeError):
        return []


@dataclass(frozen=True, slots=True)
class RunRef:
    """A run, with the message context for its events."""

    id: str
    knowledge_base_id: str
    company_id: str
    index_id: str
    correlation_id: str
    causation_id: str | None = None
    traceparent: str | None = None

    @property
    def context(self) -> MessageContext:
        return MessageContext(self.company_id, self.correlation_id, self.causation_id, self.traceparent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedItem:
    """An item that this worker has claimed. ``text`` is None if the file must be removed from the index."""

    key: ItemKey
    token: Token
    run: RunRef
    settings: IndexSettings
    name: str
    content_type: str
    sha256: str
    size: int
    text: TextKey | None
    attempts: int
    exhausted: bool
    """Whether the item has been failing for too long, or its worker has died on too many attempts."""

    @property
    def chunk_source(self) -> str:
        """The source that chunk IDs are derived from."""
        return f"{self.key.file_id}/{self.sha256}"


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    run: RunRef
    state: RunState
    token: Token
    settings: IndexSettings
    attempts: int
    """The number of attempts to plan or finish the run, including this one. Outages don't count."""


@dataclass(frozen=True, slots=True)
class Due:
    """An item or run that must be sent to the bus."""

    key: WorkKey
    company_id: str
    correlation_id: str

    @property
    def subject(self) -> str:
        return self.key.run_id if isinstance(self.key, RunKey) else self.key.file_id

    @property
    def message_key(self) -> str:
        return f"{self.correlation_id}/{self.subject}"

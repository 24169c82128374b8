"""Converts files to chunks. Each file is parsed once, possibly ahead of time, and its stored text is reused."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from libs.blobs import derived_key, original_key
from libs.fairness import Capacity
from libs.objects import ObjectMissing, ObjectStore, one_piece, read_all
from libs.persistence import LeasedWork, is_outage, retry_until_available
from services.ingestion.adapters.postgres.texts import PostgresTexts
from services.ingestion.adapters.postgres.work_queue import PostgresWorkQueue
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.files import TextKey, UnparsedText
from services.ingestion.domain.parsing import DocumentReader, Unparsable
from services.ingestion.domain.runs import ClaimedItem, Claims

MOST_ATTEMPTS: Final = 5
_GIVEN_UP: Final = Unparsable("given_up", "Several attempts to read the file failed.", retryable=True)
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    item: ClaimedItem
    chunks: Sequence[Chunk]


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """Items that couldn't be loaded. If another worker is parsing the same bytes, ``problem`` is None."""

    items: Sequence[ClaimedItem]
    problem: Exception | None


class DocumentLoader:
    def __init__(
        self, texts: PostgresTexts, store: ObjectStore, reader: DocumentReader, *, lease_seconds: float
    ) -> None:
        """Creates a loader. Its claims on texts expire after ``lease_seconds``, unless ``renew`` extends them."""
        self.lease_seconds = lease_seconds
        self._texts = texts
        self._store = store
        self._reader = reader
        self._stored_texts: set[TextKey] = set()
        self._parsing: set[TextKey] = set()

    async def renew(self) -> None:
        """Renews the leases of the texts that are being parsed. Call it every few seconds."""
        if self._parsing:
            await self._texts.renew(list(self._parsing), seconds=self.lease_seconds)

    async def load(self, items: Sequence[ClaimedItem]) -> AsyncGenerator[Sequence[Loaded] | NotLoaded, None]:
        """Yields each item as soon as it's ready. Items with the same bytes are yielded together.

        Closing the iterator cancels the remaining work.
        """
        groups: dict[TextKey, list[ClaimedItem]] = {}
        for item in items:
            if item.text is not None:
                groups.setdefault(item.text, []).append(item)
        states = await self._texts.states(list(groups))
        parsed = {key for key, state in states.items() if state.state == "parsed"}
        ours = await self._texts.claim(
            [key for key in groups if key not in parsed], seconds=self.lease_seconds, again=True
        )
        self._parsing |= ours
        loading = [
            asyncio.create_task(self._group(key, group, parsed=key in parsed))
            for key, group in groups.items()
            if key in parsed or key in ours
        ]
        try:
            for done in asyncio.as_completed(loading):
                yield await done
        finally:
            for task in loading:
                task.cancel()
            await asyncio.gather(*loading, return_exceptions=True)
            self._parsing -= ours
            # Record all texts with one statement, since a statement costs more than parsing most files.
            if stored := self._stored_texts & groups.keys():
                self._stored_texts -= stored
                await self._texts.parsed(stored)
        if others := [item for key, group in groups.items() if key not in parsed | ours for item in group]:
            # Another worker is parsing these texts. Their items are retried shortly.
            yield NotLoaded(others, None)

    async def claim(self, texts: Sequence[UnparsedText]) -> list[UnparsedText]:
        """Claims texts to be parsed ahead. Texts with too many attempts are marked as failed."""
        if given_up := [text.key for text in texts if text.attempts >= MOST_ATTEMPTS]:
            await self._texts.failed(dict.fromkeys(given_up, _GIVEN_UP))
        wanted = [text.key for text in texts if text.attempts < MOST_ATTEMPTS]
        ours = await self._texts.claim(wanted, seconds=self.lease_seconds) if wanted else set()
        self._parsing |= ours
        return [text for text in texts if text.key in ours]

    async def parse_ahead(self, text: UnparsedText) -> None:
        """Parses a claimed text before a knowledge base needs it. Never raises."""
        key = text.key
        try:
            await self._parse_ahead(text)
        except Exception as problem:
            # The lease expires, and the text is retried.
            if not is_outage(problem):
                _log.exception("text.not_parsed", blob_id=key.blob_id, attempt=text.attempts + 1)
                return
            _log.warning("text.postponed", blob_id=key.blob_id, problem=repr(problem))
            await retry_until_available(partial(self._texts.interrupted, key))
        finally:
            self._parsing.discard(key)

    async def _parse_ahead(self, text: UnparsedText) -> None:
        key = text.key
        try:
            async with self._store.as_file(original_key(key.blob_id)) as path:
                document = await self._reader.parse(path, text.name, key.content_type, company_id=text.company_id)
            await self._store_text(key, document)
            await self._texts.parsed([key])
        except Unparsable as problem:
            await self._texts.failed({key: problem})

    async def _group(self, key: TextKey, items: list[ClaimedItem], *, parsed: bool) -> Sequence[Loaded] | NotLoaded:
        try:
            if parsed:
                return await self._cut(await self._stored(key, items[0]), items)
            document, first = await self._parse(key, items[0])
            return [first, *await self._cut(document, items[1:])]
        except Exception as problem:
            return NotLoaded(items, problem)

    async def _stored(self, key: TextKey, item: ClaimedItem) -> ParsedDocument:
        try:
            return ParsedDocument.from_bytes(
                await read_all(self._store, derived_key(key.blob_id, "text", key.content_type))
            )
        except (ObjectMissing, ValueError):
            # Texts are written without waiting for the disk, so a power failure may lose one.
            document, _ = await self._parse(key, item)
            return document

    async def _parse(self, key: TextKey, item: ClaimedItem) -> tuple[ParsedDocument, Loaded]:
        try:
            async with self._store.as_file(original_key(key.blob_id)) as path:
                document, chunks = await self._reader.parse_and_chunk(
                    path, item.name, key.content_type, item.settings, item.chunk_source, company_id=item.run.company_id
                )
        except Unparsable as problem:
            await self._texts.failed({key: problem})
            raise
        await self._store_text(key, document)
        self._stored_texts.add(key)
        return document, Loaded(item, chunks)

    async def _store_text(self, key: TextKey, document: ParsedDocument) -> None:
        await self._store.put(
            derived_key(key.blob_id, "text", key.content_type), one_piece(document.to_bytes()), durable=False
        )

    async def _cut(self, document: ParsedDocument, items: Sequence[ClaimedItem]) -> list[Loaded]:
        loaded = []
        for item in items:
            company_id = item.run.company_id
            chunks = await self._reader.chunk(document, item.settings, item.chunk_source, company_id=company_id)
            loaded.append(Loaded(item, chunks))
        return loaded


@dataclass(frozen=True, slots=True)
class ParseAhead:
    queue: PostgresWorkQueue
    loader: DocumentLoader
    claims: Claims
    at_once: int

    async def __call__(self) -> int:
        """Parses texts until none is left or other work arrives. Returns the number of texts claimed."""
        return await LeasedWork(
            claim=self._claim,
            renew=lambda _: self.loader.renew(),
            process=self.loader.parse_ahead,
            company_of=lambda text: text.company_id,
            each=self.at_once,
            lease_seconds=self.loader.lease_seconds,
        )()

    async def _claim(self, capacity: Capacity) -> Sequence[UnparsedText]:
        return [] if self.claims else await self.loader.claim(await self.queue.unparsed(capacity))

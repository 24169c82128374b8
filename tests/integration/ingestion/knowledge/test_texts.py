"""Each file is parsed once, by one worker at a time; an unreadable file is not parsed again and again."""

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest

from libs.contracts.error_catalogue import FileErrorCode
from libs.contracts.errors import StoreUnavailable
from libs.service_defaults.repeating import repeat
from services.ingestion.adapters.postgres.texts import PostgresTexts
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.files import TextKey
from services.ingestion.domain.parsing import Unparsable
from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.inline_ingestion import InlineWorker, PlainTextReader
from tests.integration.ingestion.workers import KnowledgeBases, documents
from tests.support.waiting import until


class SlowReader(PlainTextReader):
    """A reader that waits until the test lets it read."""

    def __init__(self) -> None:
        super().__init__()
        self.may_read = asyncio.Event()

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        await self.may_read.wait()
        return await super().parse(path, name, content_type)


class RefusingReader(PlainTextReader):
    def __init__(self, code: FileErrorCode) -> None:
        super().__init__()
        self._code = code

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        self.parsed.append(name)
        raise Unparsable(self._code, "not today", retryable=True)


async def test_a_file_that_takes_longer_than_a_lease_is_parsed_once(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    (name, content), *_ = documents(1)
    first = await bases.create(await bases.upload([(name, content)]))
    second = await bases.create(await bases.upload([("copy.md", content)]))
    reader = SlowReader()
    slow = InlineWorker(ingestion.service, ingestion.objects, bases.engine, reader=reader)
    # Both runs are planned; their items are due.
    await slow.step()

    async def is_parsing() -> bool:
        return bool(await ingestion.rows("SELECT 1 FROM texts WHERE state = 'running'"))

    async def is_kept() -> bool:
        return bool(await ingestion.rows("SELECT 1 FROM texts WHERE lease_until > now()"))

    parsing = asyncio.create_task(slow.step(limit=1))
    await until(is_parsing, "the file is being parsed")
    await ingestion.rows("UPDATE texts SET lease_until = now() - interval '1 second'")
    keeping = asyncio.create_task(repeat(slow.loading.renew, 0.05))
    await until(is_kept, "the lease is renewed")
    await worker.drain()
    between = [(await bases.get(each))["datasource_count"] for each in (first, second)]
    reader.may_read.set()
    await parsing
    keeping.cancel()

    async def both_ended() -> bool:
        await worker.drain()
        return [(await bases.get(each))["status"] for each in (first, second)] == ["completed"] * 2

    await until(both_ended, "both are completed")
    assert between == [0, 0]
    assert len(reader.parsed) + len(worker.reader.parsed) == 1


async def test_a_text_that_could_not_be_noted_is_made_again(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(1)))

    async def lost(_: PostgresTexts, texts: Collection[TextKey]) -> None:
        raise StoreUnavailable(f"the connection was lost with {len(texts)} texts")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresTexts, "parsed", lost)
        with pytest.raises(StoreUnavailable):
            await worker.drain()
    for table in ("texts", "ingestion_items"):
        await ingestion.rows(f"UPDATE {table} SET lease_until = now() - interval '1 second'")
    await worker.loading.renew()
    await worker.reconcile()
    await worker.drain()

    assert (await bases.get(knowledge_base_id))["status"] == "completed"
    assert len(worker.reader.parsed) == 2


@pytest.mark.parametrize(("code", "times"), [("ocr_missing", 1), ("timeout", 2)])
async def test_only_what_may_pass_is_tried_again_by_itself(
    ingestion: Ingestion, bases: KnowledgeBases, code: FileErrorCode, times: int
) -> None:
    worker = InlineWorker(ingestion.service, ingestion.objects, bases.engine, reader=RefusingReader(code))
    [file_id] = await bases.upload(documents(1))
    knowledge_base_id = await bases.create([file_id])

    async def ended() -> bool:
        await worker.drain()
        return bool((await bases.get(knowledge_base_id))["status"] == "failed")

    await until(ended, "the ingestion ends")
    error = (await bases.get(knowledge_base_id))["datasource_errors"][file_id]
    assert error == {"code": code, "message": "not today", "phase": "parsing", "attempt": times, "retryable": True}
    assert len(worker.reader.parsed) == times

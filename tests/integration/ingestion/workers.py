"""Worker processes of the ingestion service, and what tests ask of knowledge bases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import psycopg

from libs.contracts.identifiers import new_id
from libs.contracts.resources.knowledge_bases import CreateKnowledgeBase, IngestKnowledgeBase
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
# It is a table, and outlives the server. Who waits too long fails as with any lock, and tries again.
_GATE: Final = """
    CREATE TABLE gate AS SELECT true AS shut, NULL::text AS open_for;
    CREATE FUNCTION wait_at_the_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT count(*) FROM ingestion_items WHERE index_id = NEW.index_id AND state = 'ingested') >= {most} THEN
            WHILE (SELECT shut AND open_for IS DISTINCT FROM NEW.index_id FROM gate) LOOP
                IF clock_timestamp() > statement_timestamp() + interval '4 seconds' THEN
                    RAISE lock_not_available;
                END IF;
                PERFORM pg_sleep(0.05);
            END LOOP;
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER gate AFTER UPDATE ON ingestion_items
    FOR EACH ROW WHEN (NEW.state = 'ingested') EXECUTE FUNCTION wait_at_the_gate();
"""


def shut_gate(database_url: str, most: int) -> None:
    """Ingestions stop in their middle: nobody commits items of an index with which it would have `most` or more."""
    execute(database_url, _GATE.format(most=most))


def open_gate(database_url: str, index_id: str | None = None) -> None:
    """For all ingestions, or for that into one index."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE gate SET shut = %s, open_for = %s", (index_id is not None, index_id))


@dataclass
class WorkerProcesses:
    """``python -m services.ingestion streams`` as often as asked."""

    environment: dict[str, str]
    directory: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, **settings: str) -> subprocess.Popen[bytes]:
        log = (self.directory / f"worker-{len(self.started)}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "services.ingestion", "streams"],
            cwd=ROOT, env={**os.environ, **self.environment, **settings}, stdout=log, stderr=log,
        )  # fmt: skip
        log.close()
        self.started.append(process)
        return process

    def entries(self, worker: int) -> list[dict[str, Any]]:
        """Returns the worker's log."""
        lines = (self.directory / f"worker-{worker}.log").read_bytes().splitlines()
        return [orjson.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    async def joined(self, count: int) -> bool:
        """Whether so many workers have been given a part of the work."""
        parts = [
            [entry["partitions"] for entry in self.entries(worker) if entry["event"] == "streams.assigned"]
            for worker in range(len(self.started))
        ]
        return sum(1 for part in parts if part and part[-1] == 12 // count) == count

    def stop(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class KnowledgeBases:
    """Makes knowledge bases of an ingestion service under test and looks into them."""

    def __init__(self, ingestion: Any) -> None:
        self.ingestion = ingestion
        self.engine = PgvectorEngine(ingestion.service.database)

    async def upload(self, documents: Sequence[tuple[str, bytes]]) -> list[str]:
        """Ids of the files, in the order given."""
        ids = []
        for start in range(0, len(documents), 5):
            response = await self.ingestion.upload(*documents[start : start + 5])
            assert response.status_code == 201, response.text
            body = response.json()
            ids += [each["id"] for each in body.get("files", [body])]
        return ids

    async def create(self, file_ids: Sequence[str] = (), **settings: Any) -> str:
        knowledge_base_id = new_id()
        body = {"name": "Handbook", "file_ids": list(file_ids), **settings}
        command = CreateKnowledgeBase(knowledge_base_id=knowledge_base_id, settings=body)
        outcome = await self.ingestion.run_command(command)
        assert outcome.type == "aes.ingestion.knowledge_base.created.v1", outcome.payload
        return knowledge_base_id

    async def ingest(self, knowledge_base_id: str) -> None:
        outcome = await self.ingestion.run_command(IngestKnowledgeBase(knowledge_base_id=knowledge_base_id))
        assert outcome.type == "aes.ingestion.knowledge_base.ingestion.queued.v1", outcome.payload

    async def get(self, knowledge_base_id: str) -> dict[str, Any]:
        response = await self.ingestion.get(f"/internal/knowledge-bases/{knowledge_base_id}")
        assert response.status_code == 200, response.text
        return response.json()

    async def ended(self, knowledge_base_id: str) -> dict[str, Any]:
        """As it is when its ingestion has ended."""

        async def has_ended() -> dict[str, Any] | None:
            now = await self.get(knowledge_base_id)
            return now if now["status"] in ("completed", "failed") else None

        found = await until(has_ended, f"the ingestion of {knowledge_base_id} ends", pause=0.1)
        assert found is not None
        return found

    async def index_id(self, knowledge_base_id: str) -> str | None:
        rows = await self.ingestion.rows("SELECT index_id FROM knowledge_bases WHERE id = %s", knowledge_base_id)
        return rows[0]["index_id"]

    async def chunk_ids(self, knowledge_base_id: str) -> list[str]:
        """Sorted ids of everything in the live index; duplicates stay."""
        index_id = await self.index_id(knowledge_base_id)
        number = await self.ingestion.rows("SELECT number FROM search.indexes WHERE id = %s", index_id)
        rows = await self.ingestion.rows(f"SELECT id FROM search.passages_{number[0]['number']} ORDER BY id")
        return [row["id"] for row in rows]

    async def is_missing(self, index_id: str) -> bool:
        return not await self.ingestion.rows("SELECT id FROM search.indexes WHERE id = %s", index_id)


def documents(count: int, *, words: int = 400) -> list[tuple[str, bytes]]:
    """Markdown files that have several chunks each and no two the same."""
    return [
        (f"doc-{n:04}.md", f"# Document {n}\n\n{' '.join(f'word{n}x{w}' for w in range(words))}\n".encode())
        for n in range(count)
    ]


def execute(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement)

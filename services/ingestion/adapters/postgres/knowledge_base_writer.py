"""Changes knowledge bases. Rows are locked in a fixed order: the knowledge base, the run, the items."""

from collections.abc import Sequence
from dataclasses import replace

from psycopg.types.json import Json

from libs.contracts.errors import Conflict, ErrorKind
from libs.contracts.resources.knowledge_bases import KnowledgeBaseStatus
from libs.eventing import Transaction
from libs.persistence import Connection, fetch_value
from services.ingestion.adapters import metrics
from services.ingestion.adapters.postgres.knowledge_bases import find, settings_json, view_of
from services.ingestion.adapters.postgres.run_events import publish_failure
from services.ingestion.domain.knowledge_bases import KnowledgeBaseView, StoredKnowledgeBase
from services.ingestion.domain.runs import RunRef

_ACTIVE = "state IN ('planning', 'running', 'finishing')"


class PostgresKnowledgeBaseWriter:
    """Changes knowledge bases and their runs in the caller's transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection

    async def missing(
        self, company_id: str, collection_ids: Sequence[str], file_ids: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Returns the given collections and files that don't exist in the company."""
        collections = await self._connection.execute(
            "SELECT id FROM collections WHERE company_id = %s AND id = ANY (%s)", (company_id, list(collection_ids))
        )
        there = {row[0] for row in await collections.fetchall()}
        files = await self._connection.execute(
            "SELECT id FROM files WHERE company_id = %s AND id = ANY (%s) AND deleted_at IS NULL",
            (company_id, list(file_ids)),
        )
        stored = {row[0] for row in await files.fetchall()}
        return [i for i in collection_ids if i not in there], [i for i in file_ids if i not in stored]

    async def add(self, knowledge_base: StoredKnowledgeBase) -> None:
        kb = knowledge_base
        inserted = await self._connection.execute(
            """INSERT INTO knowledge_bases (id, company_id, name, description, collection_ids, file_ids, settings,
                   llm_config, created_by, created_by_name, company_name, created_at, updated_at)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            (
                kb.id, kb.company_id, kb.name, kb.description, list(kb.collection_ids), list(kb.file_ids),
                Json(settings_json(kb.settings)), Json(dict(kb.llm_config)), kb.created_by, kb.created_by_name,
                kb.company_name, kb.created_at, kb.updated_at,
            ),
        )  # fmt: skip
        if inserted.rowcount == 0:
            raise Conflict("A knowledge base with this ID already exists.")

    async def lock(self, company_id: str, knowledge_base_id: str) -> StoredKnowledgeBase:
        """Locks the knowledge base. Raises ``KnowledgeBaseNotFound``, also if the knowledge base is being deleted."""
        return await find(self._connection, company_id, knowledge_base_id, "FOR UPDATE")

    async def save(self, knowledge_base: StoredKnowledgeBase) -> None:
        """Saves a locked knowledge base's name, description, content and settings."""
        kb = knowledge_base
        await self._connection.execute(
            """UPDATE knowledge_bases SET name = %s, description = %s, collection_ids = %s, file_ids = %s,
                   settings = %s, llm_config = %s, updated_at = %s WHERE id = %s""",
            (
                kb.name, kb.description, list(kb.collection_ids), list(kb.file_ids), Json(settings_json(kb.settings)),
                Json(dict(kb.llm_config)), kb.updated_at, kb.id,
            ),
        )  # fmt: skip

    async def set_running(self, knowledge_base: StoredKnowledgeBase) -> None:
        """Sets the status, unless the first ingestion hasn't started yet."""
        if knowledge_base.status != "pending":
            await set_status(self._connection, knowledge_base.id, "running")

    async def start_run(self, knowledge_base: StoredKnowledgeBase, run: RunRef) -> RunRef:
        """Starts an ingestion run with the locked knowledge base's settings.

        If an active run has the same settings, restarts and returns that run. Supersedes an active run with other
        settings. ``run.index_id`` is the ID for a new index, if one is needed.
        """
        index_id = await self._target_index(knowledge_base, run.index_id)
        again = await self._connection.execute(
            f"""UPDATE ingestion_runs SET state = 'planning', planned_to = '', attempts = 0, sent_at = NULL,
                    retry_at = NULL, token = NULL, lease_until = NULL, changed_at = now()
                WHERE knowledge_base_id = %s AND index_id = %s AND {_ACTIVE}
                RETURNING id, correlation_id, causation_id, traceparent""",
            (knowledge_base.id, index_id),
        )
        if row := await again.fetchone():
            return RunRef(row[0], run.knowledge_base_id, run.company_id, index_id, *row[1:])
        await self._supersede(knowledge_base.id, "Superseded by an ingestion with different settings.")
        run = replace(run, index_id=index_id)
        await self._add_run(run, "planning")
        return run

    async def replace_index(self, knowledge_base: StoredKnowledgeBase, index_id: str, run: RunRef) -> RunRef | None:
        """Starts or restarts a run that replaces a lost index. Returns None if the index is no longer in use."""
        if not await self._drop_indexes(knowledge_base.id, "id = %s AND state IN ('building', 'live')", index_id):
            return None
        metrics.LOST_INDEXES.inc()
        fresh = await self._target_index(knowledge_base, run.index_id)
        await self._connection.execute(
            f"UPDATE ingestion_runs SET index_id = %s WHERE knowledge_base_id = %s AND index_id = %s AND {_ACTIVE}",
            (fresh, knowledge_base.id, index_id),
        )
        return await self.start_run(knowledge_base, run)

    async def begin_deletion(self, knowledge_base_id: str, run: RunRef) -> None:
        """Hides the knowledge base, ends its runs, and marks its indexes for deletion. The events refer to ``run``."""
        await self._supersede(knowledge_base_id, "The knowledge base was deleted.")
        await self._add_run(run, "superseded")
        await self._connection.execute(
            "UPDATE knowledge_bases SET deleting_at = now(), index_id = NULL WHERE id = %s", (knowledge_base_id,)
        )
        await self._drop_indexes(knowledge_base_id)
        await self._connection.execute(
            "DELETE FROM knowledge_base_views WHERE knowledge_base_id = %s", (knowledge_base_id,)
        )

    async def view(self, company_id: str, knowledge_base_id: str) -> KnowledgeBaseView:
        """Returns the knowledge base as this transaction sees it."""
        return await view_of(self._connection, await find(self._connection, company_id, knowledge_base_id))

    async def _target_index(self, knowledge_base: StoredKnowledgeBase, new_id: str) -> str:
        wanted = knowledge_base.settings.hash()
        found: str | None = await fetch_value(
            self._connection,
            """SELECT id FROM knowledge_base_indexes
               WHERE knowledge_base_id = %s AND settings_hash = %s AND state IN ('building', 'live')""",
            (knowledge_base.id, wanted),
        )
        await self._drop_indexes(knowledge_base.id, "state = 'building' AND id IS DISTINCT FROM %s", found)
        if found:
            return found
        await self._connection.execute(
            """INSERT INTO knowledge_base_indexes (id, knowledge_base_id, engine, settings, settings_hash)
               VALUES (%s, %s, %s, %s, %s)""",
            (
                new_id, knowledge_base.id, knowledge_base.settings.engine,
                Json(settings_json(knowledge_base.settings)), wanted,
            ),
        )  # fmt: skip
        return new_id

    async def _drop_indexes(self, knowledge_base_id: str, condition: str = "true", *values: str | None) -> int:
        dropped = await self._connection.execute(
            f"""UPDATE knowledge_base_indexes SET state = 'dropping', drop_after = now()
                WHERE knowledge_base_id = %s AND {condition}""".encode(),
            (knowledge_base_id, *values),
        )
        return dropped.rowcount

    async def _supersede(self, knowledge_base_id: str, reason: str) -> None:
        ended = await self._connection.execute(
            f"""UPDATE ingestion_runs SET state = 'superseded', token = NULL, lease_until = NULL, changed_at = now()
                WHERE knowledge_base_id = %s AND {_ACTIVE}
                RETURNING id, knowledge_base_id, company_id, index_id, correlation_id, causation_id, traceparent""",
            (knowledge_base_id,),
        )
        for row in await ended.fetchall():
            await publish_failure(self._transaction, RunRef(*row), ErrorKind.CONFLICT, reason)

    async def _add_run(self, run: RunRef, state: str) -> None:
        await self._connection.execute(
            """INSERT INTO ingestion_runs
                   (id, knowledge_base_id, company_id, index_id, state, correlation_id, causation_id, traceparent)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s)""",
            (
                run.id, run.knowledge_base_id, run.company_id, run.index_id, state, run.correlation_id,
                run.causation_id, run.traceparent,
            ),
        )  # fmt: skip
        await self._connection.execute(
            "UPDATE knowledge_bases SET run_id = %s WHERE id = %s", (run.id, run.knowledge_base_id)
        )


async def set_status(connection: Connection, knowledge_base_id: str, status: KnowledgeBaseStatus) -> None:
    """Sets the status. If the status changes, also increments the version that ``mark_seen`` compares."""
    await connection.execute(
        """UPDATE knowledge_bases SET status = %(status)s, updated_at = clock_timestamp(),
               status_version = status_version + (status <> %(status)s)::integer
           WHERE id = %(id)s""",
        {"id": knowledge_base_id, "status": status},
    )

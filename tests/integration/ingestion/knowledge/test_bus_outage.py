"""A broker that goes away in the middle of an ingestion and comes back."""

from pathlib import Path

from libs.contracts.topics import INGESTION_EVENTS, INGESTION_WORK
from libs.eventing import create_topics
from tests.integration.ingestion.conftest import Ingestion
from tests.support.ingestion_workers import UNHURRIED, KnowledgeBases, WorkerProcesses, documents, execute, until
from tests.support.private_kafka import private_kafka


async def test_an_ingestion_ends_by_itself_when_the_broker_is_back(
    ingestion: Ingestion, bases: KnowledgeBases, workers: WorkerProcesses, topic_prefix: str, tmp_path: Path
) -> None:
    files = await bases.upload(documents(25))
    execute(ingestion.database_url, UNHURRIED)
    knowledge_base_id = await bases.create(files)
    with private_kafka(tmp_path) as broker:
        async with broker.proxy() as proxy:
            await create_topics(broker.bootstrap_servers, topic_prefix, topics=(INGESTION_WORK, INGESTION_EVENTS))
            own = {"AES_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "AES_INGESTION_STREAMS_BATCH": "1"}
            workers.start(**own)

            async def done() -> int:
                return int((await bases.get(knowledge_base_id))["datasource_count"])

            async def some_are_done() -> bool:
                return await done() > 0

            async def ended() -> bool:
                # As a supervisor does: a worker whose Faust has given up ends itself.
                if workers.started[-1].poll() is not None:
                    workers.start(**own)
                return bool((await bases.get(knowledge_base_id))["status"] == "completed")

            await until(some_are_done, "some files are ingested")
            await proxy.cut()
            left = 25 - await done()
            await proxy.restore()
            await until(ended, "the ingestion ends")
            workers.stop()

    assert left > 0
    chunks = await bases.chunk_ids(knowledge_base_id)
    assert len(chunks) == len(set(chunks)) >= 25

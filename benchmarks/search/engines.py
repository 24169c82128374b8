"""The engines that are measured, each on a server of its own that is gone at the end."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from benchmarks.stack import benchmark_home, postgres_alone, remove
from deploy.images.fallback_images.go_programs import built
from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.processes import MARKER
from libs.persistence import Database, migrate
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.adapters.engines.weaviate.connection import Address
from services.ingestion.adapters.engines.weaviate.engine import WeaviateEngine
from services.ingestion.bootstrap import MIGRATIONS
from services.ingestion.domain.engines import Engine
from tests.servers.go import WEAVIATE
from tests.servers.weaviate import WeaviateServer


@asynccontextmanager
async def engines(names: Sequence[str]) -> AsyncIterator[dict[str, Engine]]:
    home = benchmark_home()
    await asyncio.to_thread(remove, home)
    home.create()
    try:
        async with AsyncExitStack() as opened:
            makers = {"pgvector": _pgvector, "weaviate": _weaviate}
            yield {name: await opened.enter_async_context(makers[name](home)) for name in names}
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))


@asynccontextmanager
async def _pgvector(home: Home) -> AsyncIterator[Engine]:
    async with postgres_alone(home) as stack:
        await asyncio.to_thread(migrate, stack.reference_database, MIGRATIONS)
        database = Database(stack.reference_database, name="bench-search")
        await database.open()
        try:
            yield PgvectorEngine(database)
        finally:
            await database.close()


@asynccontextmanager
async def _weaviate(home: Home) -> AsyncIterator[Engine]:
    await asyncio.to_thread(built, WEAVIATE)
    server = WeaviateServer(home.root / "weaviate", {**os.environ, MARKER: str(home.root)})
    running = await start(server, lambda _: None)
    engine = WeaviateEngine(Address(server.url, server.grpc_port))
    try:
        yield engine
    finally:
        await engine.close()
        await asyncio.shield(asyncio.to_thread(running.stop))

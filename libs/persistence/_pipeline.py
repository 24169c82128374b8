"""Pipelines whose statements travel together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from psycopg import AsyncConnection, AsyncPipeline
from psycopg.abc import PQGen


class Pipeline(AsyncPipeline):
    """Sends its statements when a result is needed, and at its end.

    psycopg's own sends each one at once: that takes three calls of the system, and the server's process wakes up for
    every statement. An error of a statement is raised where a result is fetched next, or at the end.
    """

    def command(self, statement: bytes) -> None:
        """Adds a statement without parameters and rows."""
        self.command_queue.append(partial(self.pgconn.send_query_params, statement, None))
        self.result_queue.append(None)

    def _communicate_gen(self) -> PQGen[None]:
        while self.command_queue:
            # Into libpq's buffer, which it sends by itself only when it is full.
            self.command_queue.popleft()()
        return
        yield

    def _fetch_gen(self, *, flush: bool) -> PQGen[None]:  # noqa: ARG002
        # Always sent before anything is waited for, also behind a synchronisation.
        return super()._fetch_gen(flush=True)


@asynccontextmanager
async def pipeline(connection: AsyncConnection[Any]) -> AsyncIterator[Pipeline]:
    """Has the connection send what is executed within the block as ``Pipeline`` says. Not within another pipeline."""
    assert connection._pipeline is None
    # psycopg goes on with the pipeline that a connection has.
    given = connection._pipeline = Pipeline(connection)
    try:
        async with connection.pipeline():
            yield given
    except BaseException:
        # Behind a statement that failed nothing was prepared, and psycopg believes that it was: each later use would
        # fail. The server forgets with the next statement or rollback.
        connection._prepared.clear()
        raise

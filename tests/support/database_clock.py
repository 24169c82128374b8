"""The clock of a database, stopped: statements that go by ``now()`` get the time that a test says.

For what happens at a time of the database, so that no verdict depends on how long a test takes.
"""

from psycopg import AsyncConnection

_STOP = """
    CREATE SCHEMA stopped_clock;
    CREATE TABLE stopped_clock.moment AS SELECT pg_catalog.now() AS at;
    CREATE FUNCTION stopped_clock.now() RETURNS timestamptz STABLE LANGUAGE sql
        AS 'SELECT at FROM stopped_clock.moment';
    DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET search_path = stopped_clock, public, pg_catalog', current_database());
    END $$
"""


class StoppedDatabaseClock:
    """Counts for connections that are opened after ``stop``."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    async def stop(self) -> None:
        await self._execute(_STOP)

    async def advance(self, seconds: float) -> None:
        await self._execute(f"UPDATE stopped_clock.moment SET at = at + interval '{seconds} s'")

    async def _execute(self, statement: str) -> None:
        async with await AsyncConnection.connect(self._database_url, autocommit=True) as connection:
            await connection.execute(statement.encode())

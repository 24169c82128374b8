"""Transactions of a service while there is nothing to do."""

import asyncio
from typing import Final

from libs.persistence import Database
from libs.service_defaults import Service

_SECONDS: Final = 6
# Six were counted: a process looks twice a second who else lives while it is young, and what waits in the outbox. A
# timer of a tenth of a second would alone be more.
_MOST_A_SECOND: Final = 8
_COUNT: Final = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


async def test_a_service_at_rest_leaves_its_database_alone(owner: Service, database: Database) -> None:
    await asyncio.sleep(1)
    before = await database.value(_COUNT)
    await asyncio.sleep(_SECONDS)
    after = await database.value(_COUNT)
    assert 0 < after - before <= _MOST_A_SECOND * _SECONDS

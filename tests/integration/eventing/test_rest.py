"""Statements of a service while there is nothing to do."""

from collections import Counter
from typing import Any, Final

import psycopg
import pytest

from libs.service_defaults import Service
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
# A process that is young looks twice a second who else lives: the measure of what else it asks for meanwhile. That is,
# once in four looks, what waits in the outbox. A timer of a tenth of a second would ask five times a look.
_LOOK: Final = "pg_lock_status"
_LOOKS: Final = 12
_MOST_A_LOOK: Final = 2


async def test_a_service_at_rest_leaves_its_database_alone(owner: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    execute = psycopg.AsyncCursor.execute

    async def counted(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        asked["look" if _LOOK in str(query) else str(query)] += 1
        return await execute(cursor, query, *arguments, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", counted)
    await until(lambda: asked["look"] >= 2)
    asked.clear()
    await until(lambda: asked["look"] >= _LOOKS)
    assert 0 < asked.total() - asked["look"] <= _MOST_A_LOOK * _LOOKS, asked

"""Pages by cursor: nothing twice, nothing left out, at the same cost wherever they begin."""

import asyncio
import base64
import json
from typing import Any
from unittest.mock import ANY

import pytest

from libs.contracts.errors import ValidationFailed
from libs.contracts.pages import COUNTED, Page
from libs.persistence import NEWEST_FIRST, Database, Order, _pages, fetch_page

OLDEST_FIRST = Order(NEWEST_FIRST.columns, NEWEST_FIRST.types, descending=False)
# Many rows of a moment: what was made in one transaction.
ROWS = """
    CREATE TABLE things (id text PRIMARY KEY, owner text NOT NULL, created_at timestamptz NOT NULL);
    INSERT INTO things SELECT 'id' || n, CASE WHEN n %% 10 = 0 THEN 'ada' ELSE 'bob' END,
           '2026-05-04T08:00:00.000001+02'::timestamptz + make_interval(secs => n / 7) FROM generate_series(1, {}) n;
    CREATE INDEX ix_things ON things (owner, created_at, id)
"""
SOURCE = "FROM things WHERE owner = %(owner)s"


async def make(database: Database, number: int) -> None:
    for statement in ROWS.format(number).replace("%%", "%").split(";"):
        await database.execute(statement)


async def read(
    database: Database, order: Order = NEWEST_FIRST, owner: str = "bob", **page: Any
) -> Page[dict[str, Any]]:
    async with database.connection() as connection:
        return await fetch_page(connection, "id, created_at", SOURCE, order, {"owner": owner}, **page)


@pytest.mark.parametrize("order", [NEWEST_FIRST, OLDEST_FIRST], ids=["newest first", "oldest first"])
async def test_pages_are_the_whole_list_once_whatever_is_deleted_meanwhile(database: Database, order: Order) -> None:
    await make(database, 300)
    expected = await database.execute(f"SELECT id FROM things WHERE owner = 'bob' {order.by}")
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await read(database, order, limit=20, cursor=cursor)
        found += [item["id"] for item in page.items]
        assert page.items[0].keys() == {"id", "created_at"}
        if (cursor := page.next) is None:
            break
        await database.execute("DELETE FROM things WHERE id = ANY(%s)", (found,))
    assert found == [row[0] for row in expected]


async def test_a_page_may_begin_by_number(database: Database) -> None:
    await make(database, 300)
    whole = (await read(database, limit=200)).items
    page = await read(database, limit=10, offset=15)
    assert (page.items, page.total, page.total_is_exact) == (whole[15:25], 270, True)
    behind = await read(database, limit=10, offset=5, cursor=page.next)
    assert behind.items == whole[30:40]
    assert (await read(database, limit=10, offset=1000)).facts == {
        "total": 270,
        "total_is_exact": True,
        "has_more": False,
        "next": None,
    }


async def test_no_more_than_ten_thousand_are_counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pages, "_LONG_SECONDS", 0.0)
    await make(database, 112_000)
    await database.execute("ANALYZE things")
    bobs, adas = await read(database, limit=1), await read(database, owner="ada", limit=1)
    assert (bobs.total, bobs.total_is_exact) == (COUNTED, False)
    assert (adas.total, adas.total_is_exact) == (COUNTED, False)
    for removed, exact in ((1199, False), (1, True)):
        some = "SELECT id FROM things WHERE owner = 'ada' LIMIT %s"
        await database.execute(f"DELETE FROM things WHERE id IN ({some})", (removed,))
        adas = await read(database, owner="ada", limit=1)
        assert (adas.total, adas.total_is_exact) == (COUNTED, exact)


async def test_a_long_list_is_counted_again_after_a_while(database: Database) -> None:
    await make(database, 112_000)
    long = await read(database, limit=1)
    assert (await read(database, owner="nobody", limit=1)).total == 0
    await database.execute("DELETE FROM things WHERE id <> 'id1' AND id <> 'id2'")
    assert (await read(database, limit=1)).facts == {**long.facts, "has_more": True, "next": ANY}
    # Half a minute later.
    _pages._LONG_LISTS.update(dict.fromkeys(_pages._LONG_LISTS, 0.0))
    shrunk = await read(database, limit=1)
    assert (shrunk.total, shrunk.total_is_exact) == (2, True)


async def test_a_page_that_ends_the_list_tells_its_length(database: Database) -> None:
    await make(database, 10)
    assert [
        (page.total, page.total_is_exact, page.next)
        for page in [await read(database, limit=9), await read(database, limit=5, offset=5)]
    ] == [(9, True, None)] * 2
    beyond = await read(database, limit=5, offset=50)
    assert (beyond.items, beyond.total) == ([], 9)


async def test_the_last_page_costs_what_the_first_one_does(database: Database) -> None:
    await make(database, 50_000)
    await database.execute("ANALYZE things")
    cursor = None
    for _ in range(3):
        page = await read(database, limit=1, offset=14_000, cursor=cursor)
        cursor = page.next
    beyond, place = NEWEST_FIRST.beyond(cursor)
    statement = f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT id {SOURCE}{beyond} {NEWEST_FIRST.by} LIMIT 20"
    [[plans]] = await database.execute(statement, {"owner": "bob", **place})
    node = plans[0]["Plan"]["Plans"][0]
    assert (node["Node Type"], node["Actual Rows"]) == ("Index Only Scan", 20)
    assert "created_at" in node["Index Cond"]
    assert node.get("Rows Removed by Filter", 0) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "!!!",
        "bm90IGpzb24",
        *(
            base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
            for value in (
                {}, 7, ["2026-01-01"], ["2026-01-01", 7], ["yesterday", "id"], ["2026-01-01", "a\x00b"], ["a"] * 3,
            )
        ),
    ],
)  # fmt: skip
async def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        await asyncio.to_thread(NEWEST_FIRST.beyond, text)
    assert refused.value.details[0].loc == ["query", "after"]


@pytest.mark.parametrize("number", ["1e3", "9" * 20, "", "1.5"])
def test_a_number_in_a_cursor_is_one_of_postgresql(number: str) -> None:
    text = base64.urlsafe_b64encode(json.dumps([number]).encode()).decode()
    with pytest.raises(ValidationFailed):
        Order(("position",), ("bigint",)).beyond(text)

"""One suite for every engine."""

import asyncio
from collections.abc import Sequence

import pytest

from libs.contracts.identifiers import new_id
from services.ingestion.domain.engines import Engine, Hit, IndexedChunk, IndexMissing, Mode
from services.ingestion.domain.ranking import search
from tests.integration.ingestion.chunks import CITY, DIMENSIONS, MOUNTAIN, SEA, chunk, chunk_ids, query

MODES: tuple[Mode, ...] = ("semantic", "keyword", "hybrid")


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk_id for hit in hits]


HARBOUR = chunk("harbour", "Ferries leave the harbour at seven.", SEA, file_id="timetable", position=0)
SUMMIT = chunk("summit", "The summit is reached in four hours of walking.", MOUNTAIN, file_id="hikes", position=0)
HUT = chunk(
    "hut", "A hut below the summit is open in summer; walkers sleep there.", MOUNTAIN, file_id="hikes", position=1
)
TRAM = chunk("tram", "Trams leave every ten minutes.", CITY, file_id="timetable", position=1)
ALL = (HARBOUR, SUMMIT, HUT, TRAM)


async def filled(engine: Engine, index_id: str, chunks: Sequence[IndexedChunk] = ALL) -> None:
    await engine.write(index_id, chunks)
    await engine.finish(index_id)


async def test_finds_by_meaning_what_shares_no_word_with_the_query(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    hits = await search(engine, index_id, query("alpine", MOUNTAIN, mode="semantic", top_k=2))
    assert set(ids(hits)) == {"summit", "hut"}
    assert all(hit.score > 0.99 for hit in hits)


async def test_finds_by_words_in_any_form_case_and_accent(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    found = ids(await search(engine, index_id, query("WALKS súmmits", mode="keyword")))
    assert set(found) == {"summit", "hut"}


async def test_a_keyword_search_finds_nothing_where_no_word_occurs(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    assert await search(engine, index_id, query("volcano", mode="keyword")) == []
    assert await search(engine, index_id, query("the and of", mode="keyword")) == []


@pytest.mark.parametrize("mode", MODES)
async def test_an_index_without_a_single_term_is_completed_and_searched(
    engine: Engine, index_id: str, mode: Mode
) -> None:
    await filled(engine, index_id, [chunk("signs", "--- *** ???", SEA), chunk("word", "before", CITY, position=1)])
    hits = await search(engine, index_id, query("ferry", SEA, mode=mode))
    assert ids(hits)[:1] == ([] if mode == "keyword" else ["signs"])


@pytest.mark.parametrize(
    ("asked", "first", "other"),
    [
        ("Fahrkarten", "Fahr\u00adkarten gibt es an Bord.", "Fahr mit Karten."),
        ("किताब", "यह किताब है", "यह कबूतर है"),
        ("서울", "서울에서 만나요", "부산에서 만나요"),
        ("Kobenhavn", "Færgen til København", "Færgen til Aarhus"),
        ("ERR-4711", "ERR-4711 was raised", "ERR-4712 was raised by version 4711, version 4711"),
        ("12.5 kg", "It weighs 12.5kg.", "It weighs 13.5kg."),
    ],
)
async def test_what_is_written_another_way_is_found_first(
    engine: Engine, index_id: str, asked: str, first: str, other: str
) -> None:
    await filled(engine, index_id, [chunk("other", other, SEA, position=0), chunk("first", first, SEA, position=1)])
    assert ids(await search(engine, index_id, query(asked, mode="keyword")))[:1] == ["first"]


async def test_rare_words_count_more_than_common_ones(engine: Engine, index_id: str) -> None:
    common = [chunk(f"c{n}", f"invoice number {n} of the year", SEA, file_id=f"f{n}") for n in range(30)]
    rare = chunk("rare", "a giraffe of the year", SEA, file_id="zoo")
    await filled(engine, index_id, [*common, rare])
    assert ids(await search(engine, index_id, query("invoice year giraffe", mode="keyword", top_k=1))) == ["rare"]


async def test_hybrid_puts_first_what_both_ways_find(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    hits = await search(engine, index_id, query("walkers sleep", MOUNTAIN))
    assert ids(hits)[:2] == ["hut", "summit"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_hybrid_without_a_telling_word_goes_by_meaning(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    assert ids(await search(engine, index_id, query("the of", CITY, top_k=1))) == ["tram"]


@pytest.mark.parametrize("mode", MODES)
async def test_scores_are_between_zero_and_one(engine: Engine, index_id: str, mode: Mode) -> None:
    await filled(engine, index_id)
    hits = await search(engine, index_id, query("summit hut walking", MOUNTAIN, mode=mode))
    assert hits
    assert all(0 <= hit.score <= 1 for hit in hits)


@pytest.mark.parametrize("mode", MODES)
async def test_answers_no_more_than_asked_for(engine: Engine, index_id: str, mode: Mode) -> None:
    await filled(engine, index_id, [chunk(f"p{n}", "ferry", SEA, position=n) for n in range(20)])
    assert len(await search(engine, index_id, query("ferry", SEA, mode=mode, top_k=3))) == 3


@pytest.mark.parametrize("mode", MODES)
async def test_looks_only_at_the_selected_files(engine: Engine, index_id: str, mode: Mode) -> None:
    await filled(engine, index_id)
    asked = "leave summit"
    only = await search(engine, index_id, query(asked, SEA, mode=mode, only={"timetable", "unknown"}))
    assert set(ids(only)) == {"harbour", "tram"}
    without = await search(engine, index_id, query(asked, SEA, mode=mode, without={"timetable"}))
    assert without
    assert {hit.file_id for hit in without} == {"hikes"}
    assert await search(engine, index_id, query(asked, SEA, mode=mode, only=set())) == []


async def test_a_hit_says_where_its_passage_is(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    [hit] = await search(engine, index_id, query("hut", mode="keyword"))
    assert (hit.file_id, hit.text, hit.page, hit.row) == ("hikes", HUT.chunk.text, 2, None)
    assert (hit.start, hit.end) == (HUT.chunk.start, HUT.chunk.end)


async def test_writing_again_changes_nothing(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    await filled(engine, index_id, [*ALL, ALL[0]])
    assert await engine.count(index_id) == len(ALL)
    assert await chunk_ids(engine, index_id, "hikes", DIMENSIONS) == ["summit", "hut"]


async def test_two_writers_of_the_same_passages_leave_one_of_each(engine: Engine, index_id: str) -> None:
    chunks = [chunk(f"p{n}", f"passage {n}", SEA, file_id=f"f{n % 7}", position=n) for n in range(300)]
    shifted = [*chunks[150:], *chunks[:150]]
    await asyncio.gather(*(engine.write(index_id, each) for each in (chunks, shifted, chunks)))
    assert await engine.count(index_id) == 300


async def test_writes_after_finishing_are_found(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    late = chunk("late", "A lighthouse marks the cape.", SEA, file_id="late")
    await filled(engine, index_id, [late])
    assert ids(await search(engine, index_id, query("lighthouse", mode="keyword"))) == ["late"]
    assert "late" in ids(await search(engine, index_id, query("cape", SEA, mode="semantic", top_k=2)))


async def test_passages_are_found_before_finishing(engine: Engine, index_id: str) -> None:
    await engine.write(index_id, ALL)
    assert ids(await search(engine, index_id, query("tram", CITY, top_k=1))) == ["tram"]


async def test_deleted_files_are_gone(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    await engine.delete_files(index_id, ["hikes", "unknown"])
    assert await engine.count(index_id) == 2
    assert await chunk_ids(engine, index_id, "hikes", DIMENSIONS) == []
    for mode in MODES:
        hits = await search(engine, index_id, query("summit leave", MOUNTAIN, mode=mode))
        assert set(ids(hits)) <= {"harbour", "tram"}


async def test_indexes_know_nothing_of_each_other(engine: Engine, index_id: str) -> None:
    other = new_id()
    await engine.create_index(other, 3)
    try:
        await filled(engine, index_id)
        await engine.write(other, [chunk("other", "summit", [1, 0, 0], file_id="hikes")])
        await engine.delete_files(index_id, ["hikes"])
        assert ids(await search(engine, other, query("summit", [1, 0, 0]))) == ["other"]
    finally:
        await engine.drop_index(other)


async def test_a_dropped_index_is_gone_and_late_calls_say_so(engine: Engine) -> None:
    gone = new_id()
    await engine.create_index(gone, DIMENSIONS)
    await filled(engine, gone)
    await engine.drop_index(gone)
    with pytest.raises(IndexMissing):
        await engine.write(gone, ALL)
    for mode in MODES:
        with pytest.raises(IndexMissing):
            await search(engine, gone, query("summit", MOUNTAIN, mode=mode))
    with pytest.raises(IndexMissing):
        await engine.count(gone)
    with pytest.raises(IndexMissing):
        await engine.finish(gone)
    await engine.delete_files(gone, ["hikes"])
    await engine.drop_index(gone)
    await engine.create_index(gone, DIMENSIONS)
    assert await engine.count(gone) == 0
    await engine.drop_index(gone)


async def test_making_an_index_again_keeps_its_content(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    await engine.create_index(index_id, DIMENSIONS)
    assert await engine.count(index_id) == len(ALL)


async def test_vectors_of_another_length_are_refused(engine: Engine, index_id: str) -> None:
    await filled(engine, index_id)
    with pytest.raises(ValueError, match="dimensions"):
        await engine.write(index_id, [chunk("short", "too short", [1, 0])])
    assert await engine.count(index_id) == len(ALL)


async def test_any_text_can_be_indexed(engine: Engine, index_id: str) -> None:
    texts = ["zero \x00 byte", "東京は日本の首都です", "one\ntwo\ttabs \\N \\.", "🎉 " * 50, "x" * 100_000]
    await filled(engine, index_id, [chunk(f"t{n}", text, SEA, position=n) for n, text in enumerate(texts)])
    assert await engine.count(index_id) == len(texts)
    assert ids(await search(engine, index_id, query("日本", mode="keyword"))) == ["t1"]


async def test_tells_which_indexes_are_there(engine: Engine, index_id: str) -> None:
    other = new_id()
    assert await engine.existing([]) == set()
    assert await engine.existing([index_id, other]) == {index_id}
    await engine.create_index(other, DIMENSIONS)
    assert await engine.existing([index_id, other]) == {index_id, other}
    await engine.drop_index(other)
    await engine.drop_index(other)
    assert await engine.existing([index_id, other]) == {index_id}

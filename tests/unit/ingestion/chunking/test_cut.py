import re
from itertools import pairwise

import pytest

from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.adapters.chunking.cut import LONGEST_CHUNK, cut
from services.ingestion.adapters.chunking.spans import Units
from services.ingestion.domain.documents import Chunk, ParsedDocument, Segment

STRATEGIES = ("recursive", "fixed_size", "sentence", "paragraph", "page", "markdown", "row")
UNITS = ("token", "word", "sentence", "passage", "page", "line", "character")
PARAGRAPH = "The ferry leaves at seven. It crosses the sound in twenty minutes, e.g. on Monday. Bring a coat!"
TEXT = "\n\n".join(f"# Part {n}\n\n{PARAGRAPH}\nA line of its own, number {n}." for n in range(12))


def paged(pages: list[str]) -> ParsedDocument:
    segments, start = [], 0
    for number, page in enumerate(pages, 1):
        segments.append(Segment(start, start + len(page), number))
        start += len(page) + 2
    return ParsedDocument("\n\n".join(pages), tuple(segments))


def rows(lines: list[str]) -> ParsedDocument:
    segments, start = [], 0
    for number, line in enumerate(lines, 2):
        segments.append(Segment(start, start + len(line), None, number))
        start += len(line) + 1
    return ParsedDocument("\n".join(lines), tuple(segments))


def settings(
    strategy: str = "recursive", size: int = 40, overlap: int = 0, by: str = "token", **more: list[str]
) -> ChunkingStrategy:
    return ChunkingStrategy(strategy=strategy, chunk_size=size, chunk_overlap=overlap, split_by=by, **more)


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def words_of(text: str) -> list[str]:
    return re.findall(r"\S+", text)


@pytest.mark.parametrize("overlap", [0, 7])
@pytest.mark.parametrize("by", UNITS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_combination_covers_the_text_within_the_size(strategy: str, by: str, overlap: int) -> None:
    document = paged([TEXT, TEXT])
    size = 80 if by == "character" else 30
    chunks = cut(document, settings(strategy, size, overlap, by), "s")

    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(chunk.text == document.text[chunk.start : chunk.end] == chunk.text.strip() for chunk in chunks)
    assert all(before.start < after.start for before, after in pairwise(chunks))
    covered = set().union(*(range(chunk.start, chunk.end) for chunk in chunks))
    assert all(sign.isspace() for index, sign in enumerate(document.text) if index not in covered)
    if by in ("token", "word", "character"):
        units = Units(document, by)
        assert max(units.count(chunk.start, chunk.end) for chunk in chunks) <= size


@pytest.mark.parametrize("strategy", ["recursive", "fixed_size", "sentence", "paragraph"])
@pytest.mark.parametrize("by", ["token", "word", "character"])
def test_neighbours_share_the_overlap_and_no_more(strategy: str, by: str) -> None:
    size, overlap = (300, 60) if by == "character" else (60, 20)
    document = ParsedDocument(TEXT)
    chunks = cut(document, settings(strategy, size, overlap, by), "s")
    units = Units(document, by)
    shared = [units.count(after.start, before.end) for before, after in pairwise(chunks)]
    assert max(shared) <= overlap
    assert sum(count > 0 for count in shared) >= 0.8 * len(shared)


def test_without_overlap_nothing_is_repeated() -> None:
    chunks = cut(ParsedDocument(TEXT), settings("recursive", 25), "s")
    assert words_of(" ".join(texts(chunks))) == words_of(TEXT)


def test_recursive_prefers_the_first_separator_that_fits() -> None:
    separators = ["|", ";", " "]
    document = ParsedDocument("one two three| four; five six seven| eight")
    chunks = cut(document, settings("recursive", 3, by="word", recursive_separators=separators), "s")
    assert texts(chunks) == ["one two three|", "four;", "five six seven|", "eight"]
    chunks = cut(document, settings("recursive", 4, by="word", recursive_separators=separators), "s")
    assert texts(chunks) == ["one two three|", "four; five six seven|", "eight"]


def test_what_no_separator_divides_is_cut_by_size() -> None:
    document = ParsedDocument("aa aa aa aa aa aa aa")
    chunks = cut(document, settings("recursive", 3, by="word", recursive_separators=["|"]), "s")
    assert texts(chunks) == ["aa aa aa", "aa aa aa", "aa"]


def test_fixed_size_counts_exactly() -> None:
    document = ParsedDocument(" ".join(f"w{n}" for n in range(10)))
    assert texts(cut(document, settings("fixed_size", 4, 1, "word"), "s")) == [
        "w0 w1 w2 w3",
        "w3 w4 w5 w6",
        "w6 w7 w8 w9",
    ]
    assert texts(cut(ParsedDocument("abcdefgh"), settings("fixed_size", 3, by="character"), "s")) == [
        "abc",
        "def",
        "gh",
    ]
    assert texts(cut(ParsedDocument("a\nb\nc"), settings("fixed_size", 2, by="line"), "s")) == ["a\nb", "c"]


def test_sentences_are_kept_whole() -> None:
    chunks = cut(ParsedDocument(PARAGRAPH), settings("sentence", 1, by="sentence"), "s")
    assert texts(chunks) == [
        "The ferry leaves at seven.",
        "It crosses the sound in twenty minutes, e.g. on Monday.",
        "Bring a coat!",
    ]
    chinese = ParsedDocument("今天天气很好。我们去公园！你来吗？")  # noqa: RUF001
    assert len(cut(chinese, settings("sentence", 1, by="sentence"), "s")) == 3


def test_paragraphs_are_kept_whole() -> None:
    document = ParsedDocument("First one.\nStill first.\n\nSecond one.\n \nThird one.")
    assert texts(cut(document, settings("paragraph", 1, by="passage"), "s")) == [
        "First one.\nStill first.",
        "Second one.",
        "Third one.",
    ]


def test_pages_are_never_mixed() -> None:
    chunks = cut(paged(["Page one.", "Page two is " + "long " * 50, "Page three."]), settings("page", 20, 5), "s")
    assert {chunk.page for chunk in chunks} == {1, 2, 3}
    assert chunks[0].text == "Page one."
    assert chunks[-1].text == "Page three."
    assert len(chunks) > 3


def test_rows_are_never_mixed_and_numbered() -> None:
    chunks = cut(rows(["name: Zoë", "name: Bo", "name: Li"]), settings("row", 512), "s")
    assert [(chunk.row, chunk.text) for chunk in chunks] == [(2, "name: Zoë"), (3, "name: Bo"), (4, "name: Li")]


def test_chunks_of_other_strategies_say_where_they_begin() -> None:
    chunks = cut(paged(["one " * 30, "two " * 30]), settings("recursive", 20, by="word"), "s")
    assert {chunk.page for chunk in chunks} == {1, 2}
    assert all(chunk.page == (1 if chunk.start < 121 else 2) for chunk in chunks)


def test_markdown_is_cut_at_headings() -> None:
    text = "# One\n\n" + "alpha " * 20 + "\n\n# Two\n\n" + "beta " * 20
    chunks = cut(ParsedDocument(text), settings("markdown", 30, by="word"), "s")
    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["# One", "# Two"]


def test_ids_depend_on_source_settings_and_place_only() -> None:
    document = ParsedDocument(TEXT)
    first = [chunk.id for chunk in cut(document, settings(), "file/hash")]
    assert first == [chunk.id for chunk in cut(document, settings(), "file/hash")]
    assert len(set(first)) == len(first)
    assert not set(first) & {chunk.id for chunk in cut(document, settings(), "other/hash")}
    assert not set(first) & {chunk.id for chunk in cut(document, settings(size=41), "file/hash")}


@pytest.mark.parametrize("text", ["", " \n\n ", "\n" * 1000])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_blank_text_gives_nothing(text: str, strategy: str) -> None:
    assert cut(ParsedDocument(text), settings(strategy), "s") == []


@pytest.mark.parametrize("strategy", ["recursive", "sentence", "paragraph", "page", "row"])
def test_no_passage_is_endless(strategy: str) -> None:
    endless = ParsedDocument("word " * 100_000)
    chunks = cut(endless, settings(strategy, 10_000, by="sentence"), "s")
    assert max(len(chunk.text) for chunk in chunks) <= LONGEST_CHUNK
    assert sum(len(chunk.text.split()) for chunk in chunks) == 100_000


@pytest.mark.parametrize("text", ["." * 300_000, "\n" * 300_000 + "x", "a" * 300_000, " .\n" * 100_000])
def test_odd_text_takes_no_quadratic_time(text: str) -> None:
    for strategy in ("recursive", "sentence", "paragraph"):
        assert cut(ParsedDocument(text), settings(strategy, 500, 50), "s")

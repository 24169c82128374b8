"""Cuts parsed documents into chunks according to a strategy."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from uuid import uuid5

from semantic_text_splitter import MarkdownSplitter

from libs.contracts.resources.knowledge_bases import ChunkingStrategy, SplitBy
from services.ingestion.adapters.chunking.spans import PARAGRAPH_GAP, SENTENCE_GAP, Cutter, Span, Units
from services.ingestion.domain.documents import Chunk, ParsedDocument, Segment, namespace_of

# Pages and sentences can have any length, but indexes and models limit the length of a chunk.
LONGEST_CHUNK = 200_000
_CHUNKS_OF_A_PART = 1000
_LINE_END = re.compile("\n")
_NOWHERE = re.compile(r"(?!)")
_WITHIN_PARAGRAPH = ("\n", ". ", " ")
_WITHIN_SENTENCE = (" ",)


def cut(
    document: ParsedDocument, strategy: ChunkingStrategy, source: str, part_done: Callable[[], None] = lambda: None
) -> list[Chunk]:
    """Cuts a document into chunks. Calls ``part_done`` after every 1,000 chunks."""
    text = document.text
    namespace = namespace_of(source, strategy)
    segments = _SegmentLookup(document.segments)
    chunks: list[Chunk] = []
    last = (-1, -1)
    for start, end in _bounded(_trimmed(text, _spans(document, strategy)), text):
        # Skip a chunk that is contained in the previous one, which happens if the overlap covers blank text.
        if start >= end or (start >= last[0] and end <= last[1]):
            continue
        last = (start, end)
        page, row = segments.of(start)
        index = len(chunks)
        chunks.append(Chunk(str(uuid5(namespace, str(index))), index, text[start:end], start, end, page, row))
        if len(chunks) % _CHUNKS_OF_A_PART == 0:
            part_done()
    return chunks


def _spans(document: ParsedDocument, settings: ChunkingStrategy) -> Iterator[Span]:
    text = document.text
    whole = (0, len(text))
    if settings.strategy == "markdown":
        return markdown_spans(document, settings)
    cutter = Cutter(text, Units(document, settings.split_by), settings.chunk_size, settings.chunk_overlap)
    separators = settings.recursive_separators
    match settings.strategy:
        case "fixed_size":
            return cutter.windows(whole)
        case "sentence":
            return cutter.packed(_within(cutter, _after(SENTENCE_GAP, text), _WITHIN_SENTENCE))
        case "paragraph":
            return cutter.packed(_within(cutter, _after(PARAGRAPH_GAP, text), _WITHIN_PARAGRAPH))
        case "page":
            return _each(cutter, _parts(document, "page"), separators)
        case "row":
            return _each(cutter, _parts(document, "row"), separators)
        case _:
            return cutter.packed(cutter.pieces(whole, separators))


def _within(cutter: Cutter, spans: Iterable[Span], separators: tuple[str, ...]) -> Iterator[Span]:
    for span in spans:
        yield from cutter.pieces(span, separators)


def _each(cutter: Cutter, parts: Iterable[Span], separators: list[str]) -> Iterator[Span]:
    for part in parts:
        yield from cutter.packed(cutter.pieces(part, separators))


def _after(gaps: re.Pattern[str], text: str) -> Iterator[Span]:
    """Splits the text into spans. Each span except the last one ends with a gap."""
    start = 0
    for gap in gaps.finditer(text):
        if gap.end() > start:
            yield start, gap.end()
            start = gap.end()
    if start < len(text):
        yield start, len(text)


def _parts(document: ParsedDocument, kind: str) -> Iterator[Span]:
    """Yields the spans of pages or rows.

    Without page numbers, the document is one page. Without row numbers, each line is a row.
    """
    numbered = [s for s in document.segments if (s.page if kind == "page" else s.row) is not None]
    if not numbered:
        yield from _after(_LINE_END if kind == "row" else _NOWHERE, document.text)
        return
    start = numbered[0].text_start
    for segment, following in zip(numbered, [*numbered[1:], None], strict=True):
        if kind == "row" or following is None or following.page != segment.page:
            yield start, segment.text_end
            start = following.text_start if following else start


def _trimmed(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    for start, end in spans:
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        if start < end:
            yield start, end


def _bounded(spans: Iterable[Span], text: str) -> Iterator[Span]:
    for start, end in spans:
        while end - start > LONGEST_CHUNK:
            gap = text.rfind(" ", start + LONGEST_CHUNK // 2, start + LONGEST_CHUNK)
            stop = gap if gap > 0 else start + LONGEST_CHUNK
            yield start, stop
            start = stop
        yield start, end


class _SegmentLookup:
    """Looks up the page and row of a character offset."""

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self._segments = segments
        self._starts = [segment.text_start for segment in segments]

    def of(self, position: int) -> tuple[int | None, int | None]:
        if not self._segments:
            return None, None
        index = bisect_right(self._starts, position) - 1
        # Text before the first segment, and titles between segments, belong to the following segment.
        if index < 0 or (position >= self._segments[index].text_end and index + 1 < len(self._segments)):
            index += 1
        return self._segments[index].page, self._segments[index].row


def markdown_spans(document: ParsedDocument, settings: ChunkingStrategy) -> Iterator[tuple[int, int]]:
    splitter = _splitter(settings.split_by, settings.chunk_size, settings.chunk_overlap)
    for start, chunk in splitter.chunk_indices(document.text):
        yield start, start + len(chunk)


def _splitter(split_by: SplitBy, size: int, overlap: int) -> MarkdownSplitter:
    if split_by == "character":
        return MarkdownSplitter(size, overlap)

    def count(text: str) -> int:
        return Units(ParsedDocument(text), split_by).count(0, len(text))

    return MarkdownSplitter.from_callback(count, size, overlap)

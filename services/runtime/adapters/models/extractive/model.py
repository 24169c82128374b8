"""The model `builtin:extractive`, which works offline and answers by quoting the conversation."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.runtime.adapters.models.extractive.sentences import Ranking, Sentence, content_words, sentences
from services.runtime.adapters.models.extractive.structured import MISSING, structured
from services.runtime.adapters.models.extractive.tables import file_of, row_sentence, wanted_file
from services.runtime.adapters.models.extractive.tool_rules import wanted_calls
from services.runtime.domain.conversation import (
    ArtifactPart,
    AssistantMessage,
    Citation,
    JsonObject,
    Message,
    ModelAnswer,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from services.runtime.domain.models import ModelRequest, OnText

_NOTE = "(Quoted by the built-in extractive model, which has no knowledge of its own.)"
_GREETING = re.compile(
    r"\s*(?:hi|hello|hey|good (?:morning|afternoon|evening)|thanks|thank you)\b[^?]{0,40}$", re.IGNORECASE
)
_SUMMARY = re.compile(
    r"\b(?:summar\w+|overview|in short|main points?|key points?|what is (?:this|it|that) about)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:please |now )?(?:tell|explain|describe|list|find|give|answer|quote|show|name|compare"
    r"|which|what|who|when|where|how|why|calculate|compute)\b",
    re.IGNORECASE,
)
_PLAIN = frozenset({"calculator", "current_time", "artifact_create"})
_DOCUMENT = "rag_indexing"
_SHORTEST_DOCUMENT = 200
_LONGEST_INLINE = 20_000
_LONGEST_QUOTE = 600
_PIECE = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class _Source:
    """Text to quote from, with its citation."""

    text: str
    citation: Citation | None = None
    name: str | None = None
    file: ArtifactPart | None = None


class ExtractiveModel:
    """Implements ChatModel without a provider. To simulate slow models, each answer takes `delay` seconds."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        """Answers the request. Every word counts as one token."""
        size = sum(len(message.text) for message in request.messages if isinstance(message, UserMessage))
        # A long text takes tens of milliseconds, which would block the event loop that renews leases.
        answer = await asyncio.to_thread(_counted, request) if size > _LONGEST_INLINE else _counted(request)
        if on_text is None or not answer.text:
            await asyncio.sleep(self._delay)
            return answer
        pieces = _PIECE.findall(answer.text)
        for piece in pieces:
            if self._delay:
                await asyncio.sleep(self._delay / len(pieces))
            on_text(piece)
        return answer


def _counted(request: ModelRequest) -> ModelAnswer:
    """Returns the answer with its usage, within the limits that the request's settings set."""
    answer = _answer(request)
    answer = replace(answer, usage=_usage(request, answer.text))
    if request.settings.parallel_tool_calls is False and len(answer.tool_calls) > 1:
        answer = replace(answer, tool_calls=answer.tool_calls[:1])
    ends = [index for stop in request.settings.stop or () if (index := answer.text.find(stop)) >= 0]
    return replace(answer, text=answer.text[: min(ends)]) if ends else answer


def _answer(request: ModelRequest) -> ModelAnswer:
    position = max(i for i, message in enumerate(request.messages) if isinstance(message, UserMessage))
    message = request.messages[position]
    assert isinstance(message, UserMessage)
    name = wanted_file(message.own_text)
    document, question = ("", message.own_text) if name else split_question(message.own_text)
    results = [m.result for m in request.messages[position + 1 :] if isinstance(m, ToolMessage)]
    files = _files(request.messages[: position + 1])
    if not results and not request.answer_in_text:
        calls = wanted_calls(question, request.tools, files)
        if calls:
            numbered = tuple(ToolCall(f"call_{n}", name, arguments) for n, (name, arguments) in enumerate(calls, 1))
            return ModelAnswer("", numbered, finish_reason="tool_calls")
    sources = [
        *_chunks(request, results),
        *_documents(files),
        *_texts(request, request.messages[:position], document),
    ]
    answer = _compose(question, results, sources)
    if request.settings.output_schema is not None:
        return _as_output(answer, request.settings.output_schema)
    if name is None or request.answer_in_text or not _can_make(request, results):
        return answer
    made = ToolCall("call_file", "artifact_create", file_of(name, results, answer.text.removesuffix(_NOTE).strip()))
    return ModelAnswer("", (made,), finish_reason="tool_calls")


def _as_output(answer: ModelAnswer, schema: JsonObject) -> ModelAnswer:
    """Converts the answer to JSON that matches the schema. If that isn't possible, returns the answer unchanged."""
    value = structured(schema, answer.text.removesuffix(_NOTE).strip())
    return answer if value is MISSING else replace(answer, text=json.dumps(value, ensure_ascii=False))


def _can_make(request: ModelRequest, results: Sequence[ToolResult]) -> bool:
    tried = any(result.name == "artifact_create" for result in results)
    return not tried and any(tool.name == "artifact_create" for tool in request.tools)


def _files(messages: Sequence[Message]) -> list[tuple[str, ArtifactPart]]:
    """Returns the files in the conversation, newest message first, each with its text."""
    return [
        (part.text, part.file)
        for message in reversed(messages)
        if isinstance(message, UserMessage)
        for part in message.parts
        if isinstance(part, TextPart) and part.file is not None
    ]


def _documents(files: Sequence[tuple[str, ArtifactPart]]) -> list[_Source]:
    """Returns the text of files that are included whole, without the first line, which contains the file's name."""
    return [
        _Source(text.partition("\n")[2], name=file.name, file=file)
        for text, file in files
        if file.strategy == _DOCUMENT and "\n" in text
    ]


def split_question(text: str) -> tuple[str, str]:
    """Splits a message into a pasted document, which may be empty, and the question about it."""
    paragraphs = [paragraph.strip() for paragraph in re.split(r"\n\s*\n|\n(?=[^\n]*\?\s*$)", text) if paragraph.strip()]
    if len(text) < _SHORTEST_DOCUMENT or len(paragraphs) < 2:
        return _split_sentences(text)
    index = next((i for i in (len(paragraphs) - 1, 0) if _asks(paragraphs[i])), None)
    if index is None:
        return text, ""
    return "\n\n".join(paragraphs[:index] + paragraphs[index + 1 :]), paragraphs[index]


def _split_sentences(text: str) -> tuple[str, str]:
    found = sentences(text)
    asked = [sentence.text for sentence in found if sentence.text.endswith("?")]
    if not asked or len(found) == len(asked):
        return (text, "") if len(text) > 2000 else ("", text)
    return " ".join(s.text for s in found if not s.text.endswith("?")), " ".join(asked)


def _asks(paragraph: str) -> bool:
    if len(paragraph) > 600:
        return False
    return paragraph.endswith("?") or _SUMMARY.search(paragraph) is not None or _REQUEST.match(paragraph) is not None


def _chunks(request: ModelRequest, results: Sequence[ToolResult]) -> list[_Source]:
    citations = [*request.chunks, *(citation for result in results for citation in result.citations)]
    return [_Source(c.passage, c, c.file_name or c.knowledge_base_name) for c in citations]


def _texts(request: ModelRequest, earlier: Sequence[Message], document: str) -> list[_Source]:
    """Returns the quotable parts of the conversation: `document`, earlier user messages, and a long system prompt."""
    texts = [document] if document else []
    for message in reversed(earlier):
        if isinstance(message, UserMessage):
            content = message.own_text
            statements = "\n".join(s.text for s in sentences(content) if not s.text.endswith("?"))
            texts.append(content if len(content) >= _SHORTEST_DOCUMENT else statements)
    if len(request.system) >= _SHORTEST_DOCUMENT:
        texts.append(request.system)
    return [_Source(text) for text in texts if text.strip()]


def _compose(question: str, results: Sequence[ToolResult], sources: Sequence[_Source]) -> ModelAnswer:
    tool_texts = [_text_of(result) for result in results if not result.citations]
    chosen = _choose(question, sources) if sources else []
    # Results of tools are the whole answer if none of them has citations.
    only_tools = tool_texts and not any(result.citations for result in results)
    if chosen and not only_tools:
        return _quote(chosen, sources, tool_texts)
    if tool_texts:
        return _noted("\n".join(tool_texts))
    if _GREETING.match(question):
        return _noted("Hello. Ask me about any text in this conversation, and I'll quote what it says.")
    if sources:
        return _noted("I couldn't find an answer in this conversation or in my knowledge bases.")
    return _noted(
        "I can only quote text from this conversation, and none of it answers your question. "
        "Paste a document, attach a knowledge base, or choose a language model for this agent."
    )


def _text_of(result: ToolResult) -> str:
    output = result.output.strip()
    if result.status == "unknown":
        return f"It's unknown whether {result.name} was executed: {output}"
    if result.is_error:
        return f"{result.name} failed: {output}"
    if result.name == "table_query":
        return row_sentence(result)
    return output if result.name in _PLAIN else f"{result.name} returned: {output}"


def _choose(question: str, sources: Sequence[_Source]) -> list[Sentence]:
    candidates = [s for number, source in enumerate(sources) for s in sentences(source.text, number)]
    ranking = Ranking(candidates)
    if not content_words(question) or _SUMMARY.search(question):
        return ranking.central(4)
    return ranking.best(question, 3)


def _quote(chosen: Sequence[Sentence], sources: Sequence[_Source], tool_texts: Sequence[str]) -> ModelAnswer:
    """Builds an answer from the chosen sentences, and cites their sources by number."""
    numbers: dict[int, int] = {}
    lines: list[str] = []
    for sentence in chosen:
        number = numbers.setdefault(sentence.source, len(numbers) + 1)
        lines.append(f"{_shortened(sentence.text)} [{number}]")
    citations = tuple(
        sources[index].citation
        or _citation(sources[index], " ".join(_shortened(each.text) for each in chosen if each.source == index))
        for index in numbers
    )
    names = [f"[{number}] {name}" for index, number in numbers.items() if (name := sources[index].name)]
    parts = [*tool_texts, " ".join(lines), *([" · ".join(names)] if names else [])]
    return _noted("\n\n".join(parts), citations)


def _citation(source: _Source, passage: str) -> Citation:
    if source.file is None:
        return Citation(passage)
    return Citation(passage, file_name=source.file.name, artifact_id=source.file.artifact_id)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1].rstrip() + "…"


def _noted(text: str, citations: tuple[Citation, ...] = ()) -> ModelAnswer:
    return ModelAnswer(f"{text}\n\n{_NOTE}", citations=citations)


def _usage(request: ModelRequest, text: str) -> Usage:
    asked = len(request.instructions().split()) + sum(_words(message) for message in request.messages)
    return Usage(asked, len(text.split()), model_calls=1)


def _words(message: Message) -> int:
    match message:
        case UserMessage() | AssistantMessage():
            return len(message.text.split())
        case ToolMessage(result):
            return len(result.output.split())

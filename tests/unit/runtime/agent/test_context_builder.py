"""Files of a conversation in the model's context."""

from __future__ import annotations

import asyncio
import base64
import struct
from dataclasses import replace

import pytest

from libs.contracts.errors import NotFound, ServiceUnavailable, ValidationFailed
from libs.contracts.resources.artifacts import Artifact, Sheet
from libs.contracts.resources.turns import TurnRequest
from services.runtime.domain.agents import AgentReply, AgentSpec, AgentTask
from services.runtime.domain.artifacts import part_of
from services.runtime.domain.conversation import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    UserMessage,
)
from services.runtime.domain.models import ModelRequest
from services.runtime.use_cases.agent.agent_loop import AgentRunner
from services.runtime.use_cases.agent.context_builder import ContextBuilder, ContextLimits
from tests.support.agent_fakes import FakeTool, MemoryJournal, ScriptedModel, agent_task, answering, said, with_tools
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.waiting import until

LLM = AgentSpec("llm_agent", model="scripted:model")
BITMAP = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 58, 0, 0, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0) + b"\0\0\xff\0"
LONG = "\n".join(f"Line {number} tells of ferry{number}." for number in range(2_000))


def asking(text: str, *files: Artifact, history: tuple[Message, ...] = ()) -> AgentTask:
    question = UserMessage((TextPart(text), *(part_of(file) for file in files)))
    return agent_task(question, agent=LLM, history=history)


def talked_about(*files: Artifact) -> tuple[Message, ...]:
    """Files of an earlier question."""
    return (UserMessage(tuple(part_of(file) for file in files)), AssistantMessage("Yes."))


async def replied(
    artifacts: FakeArtifacts, task: AgentTask, limits: ContextLimits | None = None
) -> tuple[ModelRequest, AgentReply]:
    model = ScriptedModel(answering("Well [1]."))
    loop = AgentRunner(model, with_tools(), context=ContextBuilder(artifacts, limits))
    reply = await loop.run(task, MemoryJournal())
    assert isinstance(reply, AgentReply)
    return model.requests[0], reply


async def given(
    artifacts: FakeArtifacts, task: AgentTask, limits: ContextLimits | None = None
) -> tuple[ModelRequest, tuple[str, ...]]:
    """The model's request and the reply's warnings."""
    request, reply = await replied(artifacts, task, limits)
    return request, reply.warnings


def text_of(request: ModelRequest, number: int = 0) -> str:
    message = request.messages[number]
    assert isinstance(message, UserMessage)
    return message.text


def images_of(request: ModelRequest) -> list[ImagePart]:
    said = [message for message in request.messages if isinstance(message, UserMessage)]
    return [part for message in said for part in message.parts if isinstance(part, ImagePart)]


@pytest.fixture
def artifacts() -> FakeArtifacts:
    return FakeArtifacts()


async def test_a_short_document_is_given_whole(artifacts: FakeArtifacts) -> None:
    note = artifacts.put("note.txt", "The ferry leaves at nine.")
    request, warnings = await given(artifacts, asking("When does it leave?", note))
    assert "The ferry leaves at nine." in text_of(request)
    assert f"file note.txt, artifact {note.artifact_id}" in text_of(request)
    assert text_of(request).startswith("When does it leave?")
    assert (len(request.messages), request.chunks, warnings) == (1, (), ())


async def test_a_long_document_is_given_by_passages_with_citations(artifacts: FakeArtifacts) -> None:
    book = artifacts.put("book.txt", LONG)
    request, reply = await replied(artifacts, asking("ferry1234?", book))
    assert [chunk.passage for chunk in request.chunks] == ["Line 1234 tells of ferry1234."]
    assert "Line 7 " not in text_of(request)
    assert "(book.txt) Line 1234" in request.instructions()
    assert [(c.artifact_id, c.file_name) for c in reply.citations] == [(book.artifact_id, "book.txt")]
    # Of one in which nothing fits the question, the beginning.
    request, _ = await given(artifacts, asking("Summarise!", book), ContextLimits(beginning=30))
    assert [chunk.passage for chunk in request.chunks] == [LONG[:30]]


async def test_documents_share_the_limit_newest_first(artifacts: FakeArtifacts) -> None:
    old, new = artifacts.put("old.txt", "o" * 600), artifacts.put("new.txt", "n" * 600)
    task = asking("And now?", new, history=talked_about(old))
    request, _ = await given(artifacts, task, ContextLimits(documents=1_000))
    assert "n" * 600 in text_of(request, 2)
    assert "only passages" in text_of(request)
    assert [chunk.artifact_id for chunk in request.chunks] == [old.artifact_id]


async def test_a_file_named_twice_stands_where_it_was_named_last(artifacts: FakeArtifacts) -> None:
    note = artifacts.put("note.txt", "The ferry leaves at nine.")
    request, _ = await given(artifacts, asking("Again?", note, history=talked_about(note)))
    texts = [text_of(request, number) for number in (0, 2)]
    assert ["leaves at nine" in text for text in texts] == [False, True]
    assert all(note.artifact_id in text for text in texts)


async def test_a_table_is_given_by_its_structure(artifacts: FakeArtifacts) -> None:
    rows = [[f"2025-{month:02}", month] for month in range(1, 13)]
    headers, types = ["month", "passengers"], ["text", "integer"]
    table = Sheet(name="Crossings 2025", headers=headers, types=types, rows=rows, row_count=12)
    sheet = artifacts.put("c.xlsx", b"xlsx", tables=[table])
    request, _ = await given(artifacts, asking("How many?", sheet))
    text = text_of(request)
    assert 'table crossings_2025 (sheet "Crossings 2025"), 12 rows' in text
    assert "month (text), passengers (integer)" in text
    assert "2025-05 | 5" in text
    assert "2025-06" not in text


async def test_images_become_image_parts_the_newest_ones(artifacts: FakeArtifacts) -> None:
    pictures = [artifacts.put(f"p{number}.png", f"png{number}".encode()) for number in range(3)]
    huge = artifacts.put("huge.png", b"x", size=50_000_000)
    history = (
        UserMessage((TextPart("First."), part_of(pictures[0]))),
        UserMessage((TextPart("Second."), part_of(pictures[1], detail="low"))),
        AssistantMessage("Seen."),
    )
    task = asking("And these?", pictures[2], huge, history=history)
    request, warnings = await given(artifacts, task, ContextLimits(images=2))
    assert [part.detail for part in images_of(request)] == ["low", None]
    encoded = [base64.b64encode(f"png{number}".encode()).decode() for number in (1, 2)]
    assert [part.url for part in images_of(request)] == [f"data:image/png;base64,{text}" for text in encoded]
    assert "too large" in warnings[0]
    assert "image p0.png" in text_of(request)


async def test_a_bitmap_is_given_as_png(artifacts: FakeArtifacts) -> None:
    drawn = artifacts.put("drawn.bmp", BITMAP)
    damaged = artifacts.put("damaged.bmp", BITMAP[:-1])
    request, warnings = await given(artifacts, asking("What is it?", drawn, damaged))
    [image] = images_of(request)
    assert image.url.startswith("data:image/png;base64,")
    assert warnings == ("the image damaged.bmp can't be converted for a model: the bitmap is damaged",)


async def test_images_beyond_the_limits_are_named_where_they_were_asked_about(artifacts: FakeArtifacts) -> None:
    pictures = [artifacts.put(f"p{number}.png", b"x" * 100) for number in range(4)]
    task = asking("And these?", *pictures[1:], history=talked_about(pictures[0]))
    most = "a model only receives the newest 20 images, at most 250 bytes in total"
    for whole, omitted in ((False, (1,)), (True, (1, 0))):
        asked = replace(task, request=TurnRequest(whole_history=whole))
        _, warnings = await given(artifacts, asked, ContextLimits(image_bytes=250))
        assert warnings == tuple(f"the image p{number}.png was omitted: {most}" for number in omitted)


async def test_a_document_in_processing_is_waited_for(artifacts: FakeArtifacts) -> None:
    note = artifacts.put("note.txt", "The ferry leaves at nine.", status="pending")
    waiting = asyncio.create_task(given(artifacts, asking("When?", note), ContextLimits(pause=0.001)))
    await until(lambda: len(artifacts.asked) >= 3)
    artifacts.processed(note, status="ready")
    request, warnings = await waiting
    assert "leaves at nine" in text_of(request)
    assert warnings == ()


async def test_unreadable_files_are_reported_to_model_and_caller(artifacts: FakeArtifacts) -> None:
    broken = artifacts.put("broken.pdf", "", status="failed", problem="the file is damaged")
    slow = artifacts.put("slow.pdf", "", status="pending")
    bomb = artifacts.put("bomb.png", b"png", status="failed", problem="the image is too large when unpacked")
    task = asking("What?", broken, slow, bomb)
    request, warnings = await given(artifacts, task, ContextLimits(processing_timeout=0.0))
    assert warnings == (
        "the file bomb.png couldn't be read: the image is too large when unpacked",
        "the file slow.pdf couldn't be read: it's still being processed",
        "the file broken.pdf couldn't be read: the file is damaged",
    )
    assert "the file is damaged" in text_of(request)
    assert images_of(request) == []


async def test_a_file_of_the_question_that_cannot_be_had_ends_the_turn(artifacts: FakeArtifacts) -> None:
    note = artifacts.put("note.txt", "text")
    with pytest.raises(NotFound):
        await given(artifacts, asking("What?", note.model_copy(update={"artifact_id": "gone"})))
    artifacts.down = True
    with pytest.raises(ServiceUnavailable):
        await given(artifacts, asking("What?", note))
    request, warnings = await given(artifacts, asking("What?", history=talked_about(note)))
    assert "cannot be reached" in warnings[0]
    assert "couldn't be read" in text_of(request)


async def test_a_search_that_fails_ends_the_turn_only_for_files_of_the_question(artifacts: FakeArtifacts) -> None:
    async def away(*_: object, **__: object) -> None:
        raise ServiceUnavailable("no search")

    artifacts.search = away  # type: ignore[assignment, method-assign]
    book = artifacts.put("book.txt", LONG)
    with pytest.raises(ServiceUnavailable):
        await given(artifacts, asking("ferry7?", book))
    request, warnings = await given(artifacts, asking("ferry7?", history=talked_about(book)))
    assert (request.chunks, warnings) == ((), ("book.txt couldn't be searched: no search",))


async def test_a_conversation_without_files_asks_nobody(artifacts: FakeArtifacts) -> None:
    artifacts.down = True
    request, _ = await given(artifacts, asking("Hello?"))
    assert request.messages == (said("Hello?"),)


async def test_a_react_agent_with_files_is_offered_the_tools_to_read_them(artifacts: FakeArtifacts) -> None:
    toolbox = with_tools(*(FakeTool(name) for name in ("echo", "artifact_read", "table_query", "artifact_create")))
    model = ScriptedModel(answering("Well."))
    loop = AgentRunner(model, toolbox, context=ContextBuilder(artifacts))
    agent = AgentSpec("react_agent", model="scripted:model", tools=("echo",))
    note = artifacts.put("note.txt", "text")
    await loop.run(agent_task(UserMessage((part_of(note),)), agent=agent), MemoryJournal())
    await loop.run(agent_task(agent=agent), MemoryJournal())
    offered = [[tool.name for tool in request.tools] for request in model.requests]
    assert offered == [["echo", "artifact_read", "table_query"], ["echo"]]


LONG_TALK = (said("a" * 10), AssistantMessage("b" * 10), said("c" * 10), AssistantMessage("d" * 10))


@pytest.mark.parametrize("named", [False, True])
async def test_messages_that_do_not_fit_are_left_out_with_a_warning(artifacts: FakeArtifacts, named: bool) -> None:
    files = [artifacts.put("note.txt", "The ferry leaves at nine.")] if named else []
    task = asking("And now?", *files, history=LONG_TALK)
    request, warnings = await given(artifacts, task, ContextLimits(history=25))
    assert len(request.messages) == 3
    [warning] = warnings
    assert warning.startswith("the conversation's oldest messages and tool results (2) were omitted")
    assert warning.endswith("25 characters")
    _, warnings = await given(artifacts, task, ContextLimits(history=40))
    assert warnings == ()


async def test_a_turn_that_needs_the_whole_history_fails_without_it(artifacts: FakeArtifacts) -> None:
    greeted = asking("And now?", history=(AssistantMessage("Hello!"), *LONG_TALK))
    _, warnings = await given(artifacts, replace(greeted, request=TurnRequest(whole_history=True)))
    assert warnings == (), "an assistant that begins a short conversation isn't left out for its length"
    task = replace(asking("And now?", history=LONG_TALK), request=TurnRequest(whole_history=True))
    with pytest.raises(ValidationFailed, match="exceeds the model's limit of 39 characters") as failed:
        await given(artifacts, task, ContextLimits(history=39))
    assert [detail.type for detail in failed.value.details or ()] == ["context_length_exceeded"]
    request, warnings = await given(artifacts, task, ContextLimits(history=40))
    assert (len(request.messages), warnings) == (5, ())

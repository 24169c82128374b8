"""Conversations as they are stored, and the newest part of long ones."""

from dataclasses import replace

import orjson
import pytest

from services.runtime.domain.conversation import (
    ArtifactPart,
    ArtifactRef,
    AssistantMessage,
    Citation,
    ImagePart,
    Message,
    ModelAnswer,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from services.runtime.domain.conversation_json import (
    answer_from_json,
    answer_to_json,
    part_from_json,
    part_to_json,
    tool_result_from_json,
    tool_result_to_json,
)
from services.runtime.domain.steps import CODECS, ModelOutput, Step
from services.runtime.domain.tools import ToolsetVersion
from services.runtime.use_cases.agent.context_builder import newest_history
from tests.support.agent_fakes import said

CITATION = Citation("p", 0.5, "kb", "Base", "f", "file.pdf", page=3)


def test_answers_and_results_survive_storage() -> None:
    calls = (ToolCall("1", "calculator", {"expression": "1+1"}), ToolCall("2", "x", {}, validation_error="not JSON"))
    answer = ModelAnswer("text", calls, Usage(1, 2, 3, 1), "tool_calls", (CITATION,))
    assert answer_from_json(orjson.loads(orjson.dumps(answer_to_json(answer)))) == answer

    result = ToolResult("1", "x", "out", "unknown", (CITATION,), (ArtifactRef("a", "a.png", "image/png", 7),))
    assert tool_result_from_json(orjson.loads(orjson.dumps(tool_result_to_json(result)))) == result


def test_parts_are_content_blocks_and_other_blocks_are_refused() -> None:
    parts: list[Part] = [
        TextPart("hello"),
        ImagePart("https://example.com/a.png"),
        ImagePart("https://example.com/a.png", "low"),
        ArtifactPart("id", "a.txt", "text/plain", "rag_indexing"),
        ArtifactPart("id", "a.png", "image/png", "vision", "https://example.com/a?signature=x"),
        ArtifactPart("id", "a.png", "image/png", "vision", detail="low"),
    ]
    assert [part_from_json(part_to_json(part)) for part in parts] == parts
    with pytest.raises(ValueError, match="video"):
        part_from_json({"type": "video", "source": {"artifact_id": "x"}})


def test_fields_of_a_newer_version_are_ignored() -> None:
    payload = {**STEPS[0].to_row()["payload"], "mood": "good"}
    read = Step.from_row(1, "model", payload, {"input_tokens": 3, "colour": "red"})
    assert read == Step(1, ModelOutput(replace(ANSWER, usage=Usage(3)), (ToolsetVersion("crm", 7),)))
    stored = answer_to_json(ModelAnswer("text", citations=(CITATION,)))
    stored["citations"][0]["colour"] = "red"
    stored["mood"] = "good"
    assert answer_from_json(stored).citations == (CITATION,)


HISTORY = (said("a" * 10), AssistantMessage("b" * 10), said("c" * 10), AssistantMessage("d" * 10))


def test_whole_messages_go_from_the_oldest_on_and_a_user_begins() -> None:
    assert newest_history(HISTORY, 40) == HISTORY
    assert newest_history(HISTORY, 39) == HISTORY[2:]
    assert newest_history(HISTORY, 15) == ()
    # An image has a size.
    history = (UserMessage((ImagePart("https://x/y.png"),)), AssistantMessage("b"))
    assert newest_history(history, 3_000) == ()
    assert newest_history(history, 5_000) == history


def turn(question: str, output: str, text: str = "") -> tuple[Message, ...]:
    call = ToolCall("c", "f", {})
    return (said(question), AssistantMessage(text, (call,)), ToolMessage(ToolResult("c", "f", output)))


def test_of_a_long_history_calls_get_half_the_newest_first() -> None:
    first, second = turn("a", "b" * 30, "so"), turn("d", "e" * 30)
    history = (*first, AssistantMessage("c"), *second, AssistantMessage("f"))
    kept = (said("a"), AssistantMessage("so"), AssistantMessage("c"), *second, AssistantMessage("f"))
    assert newest_history(history, 70) == history
    assert newest_history(history, 69) == kept
    assert newest_history(history, 50) == (*kept[:3], said("d"), AssistantMessage("f"))


def test_a_turn_of_many_results_leaves_what_was_said() -> None:
    history = (said("a" * 10), AssistantMessage("b"), *turn("c", "d" * 1000), AssistantMessage("e"))
    assert newest_history(history, 100) == (said("a" * 10), AssistantMessage("b"), said("c"), AssistantMessage("e"))


CALLS = (ToolCall("c1", "echo", {"text": "a"}), ToolCall("c2", "echo", {"text": "b"}))
ANSWER = ModelAnswer("Let me see.", CALLS, Usage(10, 5, 2, 1), "tool_calls", provider_data={"id": "x"})
STEPS = [
    Step(1, ModelOutput(ANSWER, (ToolsetVersion("crm", 7),))),
    Step(2, ModelOutput(ModelAnswer("four", usage=Usage(1, 1)), problems=("not a number",))),
    Step(1, ToolResult("c1", "echo", "a", citations=(Citation("p", 0.5),))),
    Step(1, ToolResult("c2", "echo", "gone", "unknown")),
]


def test_a_step_survives_storage() -> None:
    for step in STEPS:
        row = orjson.loads(orjson.dumps(step.to_row()))
        assert Step.from_row(row["number"], row["kind"], row["payload"], row.get("usage")) == step
        assert row["kind"] in CODECS


def test_what_lists_of_steps_show_has_columns_of_its_own() -> None:
    rows = [Step(1, ModelOutput(ANSWER, model="openai:gpt-5")).to_row(), STEPS[3].to_row()]
    assert [(row["call_id"], row.get("model"), row["status"]) for row in rows] == [
        ("", "openai:gpt-5", "completed"), ("c2", None, "unknown"),
    ]  # fmt: skip
    assert rows[0]["usage"] == {"input_tokens": 10, "output_tokens": 5, "cached_tokens": 2, "model_calls": 1}
    assert "usage" not in rows[0]["payload"]


def test_each_kind_has_its_events() -> None:
    names = [[event.TYPE.split(".", 2)[2] for event in step.events("session", "turn")] for step in STEPS]
    assert names == [
        ["turn.tool_call.started.v1"] * 2,
        ["turn.output_invalid.v1"],
        ["turn.tool_call.completed.v1"],
        ["turn.tool_call.failed.v1"],
    ]

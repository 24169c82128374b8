import orjson
import pytest

from services.runtime.domain.conversation import (
    ArtifactPart,
    ArtifactRef,
    Citation,
    ImagePart,
    ModelAnswer,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
)
from services.runtime.domain.conversation_json import (
    answer_from_json,
    answer_to_json,
    part_from_json,
    part_to_json,
    tool_result_from_json,
    tool_result_to_json,
)

CITATION = Citation("p", 0.5, "kb", "Base", "f", "file.pdf", page=3)


def test_answers_survive_storage() -> None:
    calls = (ToolCall("1", "calculator", {"expression": "1+1"}), ToolCall("2", "x", {}, validation_error="not JSON"))
    answer = ModelAnswer("text", calls, Usage(1, 2, 3, 1), "tool_calls", (CITATION,))
    assert answer_from_json(orjson.loads(orjson.dumps(answer_to_json(answer)))) == answer


def test_results_survive_storage() -> None:
    result = ToolResult("1", "x", "out", "unknown", (CITATION,), (ArtifactRef("a", "a.png", "image/png", 7),))
    assert tool_result_from_json(orjson.loads(orjson.dumps(tool_result_to_json(result)))) == result


@pytest.mark.parametrize(
    "part",
    [
        TextPart("hello"),
        ImagePart("https://example.com/a.png"),
        ImagePart("https://example.com/a.png", "low"),
        ArtifactPart("id", "a.txt", "text/plain", "rag_indexing"),
        ArtifactPart("id", "a.png", "image/png", "vision", "https://example.com/a?signature=x"),
        ArtifactPart("id", "a.png", "image/png", "vision", detail="low"),
    ],
)
def test_parts_are_content_blocks(part: Part) -> None:
    assert part_from_json(part_to_json(part)) == part


def test_other_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="video"):
        part_from_json({"type": "video", "source": {"artifact_id": "x"}})


def test_fields_of_a_newer_version_are_ignored() -> None:
    stored = answer_to_json(ModelAnswer("text", citations=(CITATION,)))
    stored["citations"][0]["colour"] = "red"
    stored["mood"] = "good"
    assert answer_from_json(stored).citations == (CITATION,)

"""Recorded steps: one codec for each kind."""

from dataclasses import replace

import orjson
import pytest

from services.runtime.domain.conversation import Citation, ModelAnswer, ToolCall, ToolResult, Usage
from services.runtime.domain.steps import CODECS, ModelOutput, Step
from services.runtime.domain.tools import ToolsetVersion

CALLS = (ToolCall("c1", "echo", {"text": "a"}), ToolCall("c2", "echo", {"text": "b"}))
ANSWER = ModelAnswer("Let me see.", CALLS, Usage(10, 5, 2, 1), "tool_calls", provider_data={"id": "x"})
STEPS = [
    Step(1, ModelOutput(ANSWER, (ToolsetVersion("crm", 7),))),
    Step(2, ModelOutput(ModelAnswer("four", usage=Usage(1, 1)), problems=("not a number",))),
    Step(1, ToolResult("c1", "echo", "a", citations=(Citation("p", 0.5),))),
    Step(1, ToolResult("c2", "echo", "gone", "unknown")),
]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_survives_storage(step: Step) -> None:
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


def test_fields_of_a_newer_version_are_ignored() -> None:
    payload = {**STEPS[0].to_row()["payload"], "mood": "good"}
    read = Step.from_row(1, "model", payload, {"input_tokens": 3, "colour": "red"})
    assert read == Step(1, ModelOutput(replace(ANSWER, usage=Usage(3)), (ToolsetVersion("crm", 7),)))

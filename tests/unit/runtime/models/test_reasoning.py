"""Reasoning in the text of answers, and what goes back to providers."""

from dataclasses import replace

import pytest

from services.runtime.adapters.models.reasoning import ReasoningApart, ReplyText
from services.runtime.adapters.models.tool_names import ProviderToolNames
from services.runtime.domain.conversation import AssistantMessage, ModelAnswer, ToolCall, ToolMessage, ToolResult
from services.runtime.domain.models import ModelRequest, OnText
from tests.support.agent_fakes import said

CALL = ToolCall("c", "desk.ask", {}, provider_data={"extra_content": {"google": {"thought_signature": "sig"}}})


class Scripted:
    def __init__(self, answer: ModelAnswer, pieces: tuple[str, ...] = ()) -> None:
        self.requests: list[ModelRequest] = []
        self._answer = answer
        self._pieces = pieces

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        self.requests.append(request)
        for piece in self._pieces if on_text else ():
            assert on_text is not None
            on_text(piece)
        return self._answer


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("<think>Hm.</think>Four.", "Four."),
        ("<think>\nHm.\n</think>\n\nFour.", "Four."),
        (" \n<thinking>Hm.</thinking> Four.", "Four."),
        ("<thought>Hm.</thought>\n<think>Hm.</think>\nFour.", "Four."),
        ("<think>Hm, and then it was cut", ""),
        ("<think></think>", ""),
        ("Let me see. <think>Hm.</think>Four.", "Let me see. Four."),
        ("Four. <think>Hm, and no end", "Four. <think>Hm, and no end"),
        ("Write `<think>` and `</think>`.", "Write `<think>` and `</think>`."),
        ("  Four.", "  Four."),
        ("<thi", "<thi"),
        ("<thin>Four</thin>", "<thin>Four</thin>"),
        ("a < b <think", "a < b <think"),
        ("a <<think>b</think>", "a <"),
        ("Four. </think>", "Four. </think>"),
        (" ", " "),
        ("", ""),
    ],
)
def test_blocks_of_reasoning_are_no_reply_however_the_text_is_cut(text: str, reply: str) -> None:
    for size in (1, 2, 3, 5, max(len(text), 1)):
        streamed = ReplyText()
        pieces = [streamed.take(text[start : start + size]) for start in range(0, len(text), size)]
        assert "".join([*pieces, streamed.finish()]) == reply


def test_a_reply_is_told_as_soon_as_it_is_certain() -> None:
    streamed = ReplyText()
    told = [streamed.take(piece) for piece in ("<think>Hm.", "</think>\n", "Fo", "ur", " <", "b")]
    assert told == ["", "", "Fo", "ur", " ", "<b"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_pieces_of_a_reply_are_its_text(stream: bool) -> None:
    pieces = ("<th", "ink>Hm.</th", "ink>", "\n", "{", "}")
    model = ReasoningApart(Scripted(ModelAnswer("".join(pieces)), pieces))
    told: list[str] = []
    answer = await model.answer(ModelRequest("vllm:x", "", (said("?"),)), told.append if stream else None)
    assert (answer.text, "".join(told)) == ("{}", "{}" if stream else "")


async def test_what_a_provider_sent_goes_back_to_its_model_alone() -> None:
    given = ModelAnswer("<think>Hm.</think>Let me ask.", (CALL,), provider_data={"reasoning_content": "Hm."})
    scripted = Scripted(given)
    model = ProviderToolNames(ReasoningApart(scripted))
    asked = ModelRequest("vllm:x", "", (said("?"),))
    answer = await model.answer(asked)
    assert answer.text == "Let me ask."

    said_before = AssistantMessage(answer.text, answer.tool_calls, answer.provider_data)
    asked = replace(asked, messages=(said("?"), said_before, ToolMessage(ToolResult("c", "desk.ask", "42"))))
    await model.answer(asked)
    await model.answer(replace(asked, model="vllm:y"))
    same, other = (request.messages[1] for request in scripted.requests[1:])
    accepted = replace(CALL, name="desk_ask")
    raw = {"reasoning_content": "Hm.", "content": "<think>Hm.</think>Let me ask."}
    assert same == AssistantMessage("Let me ask.", (accepted,), raw)
    assert other == AssistantMessage("Let me ask.", (replace(accepted, provider_data=None),))


async def test_what_belongs_to_calls_alone_goes_back_too() -> None:
    scripted = Scripted(ModelAnswer("", (CALL,)))
    model = ReasoningApart(scripted)
    asked = ModelRequest("vllm:x", "", (said("?"),))
    answer = await model.answer(asked)
    given = AssistantMessage(answer.text, answer.tool_calls, answer.provider_data)
    await model.answer(replace(asked, messages=(given,)))
    assert scripted.requests[1].messages == (AssistantMessage("", (CALL,)),)


async def test_an_answer_with_nothing_beside_its_text_is_kept_as_it_is() -> None:
    answer = ModelAnswer("Four.", (ToolCall("c", "f", {}),))
    assert await ReasoningApart(Scripted(answer)).answer(ModelRequest("vllm:x", "", (said("?"),))) == answer

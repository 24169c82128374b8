"""Names of tools as providers accept them, and back."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.resources.turns import ModelSettings, NamedTool
from services.runtime.adapters.models.tool_names import ProviderToolNames, accepted_names
from services.runtime.domain.conversation import AssistantMessage, ToolCall, ToolMessage, ToolResult
from services.runtime.domain.models import ModelRequest
from services.runtime.domain.tools import ToolDefinition
from tests.support.agent_fakes import ScriptedModel, answering, calling, said

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAMES = st.text(st.sampled_from("ab._- /é€1\n"), max_size=5) | st.text(max_size=120) | st.just("a" * 64 + ".")


def _request(*names: str) -> ModelRequest:
    tools = tuple(ToolDefinition(name, "", {}, safe_to_repeat=True) for name in names)
    return ModelRequest("scripted:model", "", (said("hello"),), tools)


@settings(max_examples=100, deadline=None)
@given(st.lists(NAMES, unique=True, max_size=12))
def test_names_are_accepted_unique_and_come_back(names: list[str]) -> None:
    accepted = accepted_names(names)

    assert set(accepted) == set(names)
    assert all(ACCEPTED.fullmatch(name) for name in accepted.values())
    assert len(set(accepted.values())) == len(names)
    assert accepted == accepted_names(reversed(names))
    assert all(accepted[name] == name for name in names if ACCEPTED.fullmatch(name))


@pytest.mark.parametrize(
    ("names", "theirs"),
    [
        (["tickets.read", "calculator"], ["tickets_read", "calculator"]),
        (["tickets.read", "tickets_read"], ["tickets_read_*", "tickets_read"]),
        (["a.b", "a b"], ["a_b_*", "a_b_*"]),
        (["desk." + "x" * 80], ["desk_" + "x" * 50 + "_*"]),
    ],
)
async def test_a_provider_is_shown_names_that_it_accepts(names: list[str], theirs: list[str]) -> None:
    model = ScriptedModel(answering("ok"))

    await ProviderToolNames(model).answer(_request(*names))

    shown = [tool.name for tool in model.requests[0].tools]
    assert [re.sub(r"_[0-9a-f]{8}$", "_*", name) for name in shown] == theirs


async def test_calls_and_history_are_mapped() -> None:
    call = ToolCall("c0", "tickets.read", {})
    history = (AssistantMessage("", (call,)), ToolMessage(ToolResult("c0", "tickets.read", "three")))
    request = _request("tickets.read", "calculator")
    request = replace(request, messages=(*request.messages, *history))
    model = ScriptedModel(calling(("tickets_read", {}), ("calculator", {}), ("invented", {})))

    answer = await ProviderToolNames(model).answer(request)

    assert [made.name for made in answer.tool_calls] == ["tickets.read", "calculator", "invented"]
    _, asked, told = model.requests[0].messages
    assert isinstance(asked, AssistantMessage)
    assert isinstance(told, ToolMessage)
    assert (asked.tool_calls[0].name, told.result.name) == ("tickets_read", "tickets_read")


async def test_a_chosen_tool_is_named_as_the_provider_knows_it() -> None:
    model = ScriptedModel(answering("ok"))
    request = replace(_request("tickets.read"), settings=ModelSettings(tool_choice=NamedTool(name="tickets.read")))

    await ProviderToolNames(model).answer(request)

    assert model.requests[0].settings.tool_choice == NamedTool(name="tickets_read")


async def test_accepted_names_pass_as_they_are() -> None:
    model, request = ScriptedModel(answering("ok")), _request("calculator", "http_get")

    await ProviderToolNames(model).answer(request)

    assert model.requests[0] is request

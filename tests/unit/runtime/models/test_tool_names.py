"""Names of tools as providers accept them, and back."""

import random
import re
from dataclasses import replace

from libs.contracts.resources.turns import ModelSettings, NamedTool
from services.runtime.adapters.models.tool_names import ProviderToolNames, accepted_names
from services.runtime.domain.conversation import AssistantMessage, ToolCall, ToolMessage, ToolResult
from services.runtime.domain.models import ModelRequest
from services.runtime.domain.tools import ToolDefinition
from tests.support.agent_fakes import ScriptedModel, answering, calling, said
from tests.support.seeds import seeds

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _request(*names: str) -> ModelRequest:
    tools = tuple(ToolDefinition(name, "", {}, safe_to_repeat=True) for name in names)
    return ModelRequest("scripted:model", "", (said("hello"),), tools)


def _some_name(chance: random.Random) -> str:
    anything = [chr(chance.randrange(0xD800)) for _ in range(chance.randrange(120))]
    alike = chance.choices("ab._- /é€1\n", k=chance.randrange(6))
    return "".join(chance.choice((anything, alike, alike, ["a" * 64, "."])))


@seeds(100)
def test_names_are_accepted_unique_and_come_back(seed: int) -> None:
    chance = random.Random(seed)
    names = list({_some_name(chance) for _ in range(chance.randrange(13))})
    accepted = accepted_names(names)

    assert set(accepted) == set(names)
    assert all(ACCEPTED.fullmatch(name) for name in accepted.values())
    assert len(set(accepted.values())) == len(names)
    assert accepted == accepted_names(reversed(names))
    assert all(accepted[name] == name for name in names if ACCEPTED.fullmatch(name))


async def test_a_provider_is_shown_names_that_it_accepts() -> None:
    for names, theirs in (
        (["tickets.read", "calculator"], ["tickets_read", "calculator"]),
        (["tickets.read", "tickets_read"], ["tickets_read_*", "tickets_read"]),
        (["a.b", "a b"], ["a_b_*", "a_b_*"]),
        (["desk." + "x" * 80], ["desk_" + "x" * 50 + "_*"]),
    ):
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

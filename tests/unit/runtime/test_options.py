"""Options of a turn, prices of models, and first messages."""

from decimal import Decimal
from typing import Any

import pytest

from libs.contracts.errors import ValidationFailed
from libs.contracts.replies import Usage
from libs.contracts.resources.messages import HistoryMessage
from libs.contracts.resources.sessions import AddMessages
from libs.contracts.resources.turns import ModelSettings, NamedTool, TurnOptions
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.beginnings import history_of
from services.runtime.domain.conversation import ArtifactPart, ImagePart, TextPart, UserMessage
from services.runtime.domain.conversation_json import message_from_row, message_to_row
from services.runtime.domain.models import ModelPrice, OptionNotSupported, PriceTable, priced
from services.runtime.domain.options import check_options
from tests.support.runtime_nodes import ObedientModel

TALKS = AgentSpec(
    "llm_agent", system_prompt="Be kind.", model="some:model", settings=ModelSettings(temperature=0.3, max_tokens=100)
)
_CALLS = ["tool_choice", "parallel_tool_calls"]
ACTS = AgentSpec("react_agent", model="some:model", tools=("echo",))


class Models(ObedientModel):
    """Their provider ignores the options with these names."""

    def __init__(self, *ignored: str) -> None:
        super().__init__()
        self._ignored = ignored

    def unsupported(self, _model: str, options: Any) -> list[str]:
        return [option for option in options if option in self._ignored]


def test_options_go_before_the_agents_own_settings() -> None:
    assert TALKS.with_options(None) is TALKS
    assert TALKS.with_options(TurnOptions()) == TALKS
    options = TurnOptions(instructions="Rhyme.", temperature=0.0, top_p=0.5, stop=["\n"], parallel_tool_calls=False)
    agent = TALKS.with_options(options)
    assert agent.system_prompt == "Be kind.\n\nRhyme."
    assert agent.settings == ModelSettings(
        temperature=0.0, top_p=0.5, max_tokens=100, stop=["\n"], parallel_tool_calls=False
    )
    assert AgentSpec("llm_agent").with_options(options).system_prompt == "Rhyme."


@pytest.mark.parametrize(
    ("options", "agent", "ignored", "refused"),
    [
        ({"tool_choice": "required"}, TALKS, (), ["tool_choice"]),
        ({"tool_choice": {"name": "a"}, "parallel_tool_calls": False}, TALKS, (), _CALLS),
        ({"tool_choice": "none", "parallel_tool_calls": True}, TALKS, ("tool_choice", "parallel_tool_calls"), []),
        ({"parallel_tool_calls": False}, ACTS, ("parallel_tool_calls",), ["parallel_tool_calls"]),
        ({"tool_choice": "required"}, ACTS, ("parallel_tool_calls",), []),
        ({"stop": ["x"]}, TALKS, ("stop",), ["stop"]),
        ({"stop": ["x"], "temperature": 1, "instructions": "Rhyme."}, TALKS, ("tool_choice",), []),
    ],
)  # fmt: skip
def test_what_would_be_ignored_is_refused_by_name(
    options: dict[str, Any], agent: AgentSpec, ignored: tuple[str, ...], refused: list[str]
) -> None:
    models, given = Models(*ignored), TurnOptions.model_validate(options)
    if not refused:
        check_options(given, agent, models)
        return
    with pytest.raises(OptionNotSupported) as refusal:
        check_options(given, agent, models)
    assert [detail.loc for detail in refusal.value.details or ()] == [["options", name] for name in refused]


def test_only_some_choices_force_a_call() -> None:
    named = NamedTool(name="echo")
    choices: tuple[Any, ...] = (None, "auto", "none", "required", named)
    forced = [ModelSettings(tool_choice=choice).forced_call for choice in choices]
    assert forced == [None, None, None, "required", named]


CHEAP, DEAR = ModelPrice(Decimal("0.05"), Decimal("0.4")), ModelPrice(Decimal("2.5"), Decimal("10"))
TABLE = PriceTable({"openai:*": CHEAP, "openai:gpt-5*": DEAR, "openai:gpt-5-nano": CHEAP})


def test_the_longest_name_that_fits_holds() -> None:
    expected = {
        "openai:gpt-5-nano": CHEAP,
        "openai:gpt-5": DEAR,
        "openai:other": CHEAP,
        "anthropic:claude": None,
        "builtin:extractive": ModelPrice(Decimal(0), Decimal(0)),
    }
    assert {model: TABLE.of(model) for model in expected} == expected


def test_a_cost_is_exact_to_the_last_digit() -> None:
    usage = Usage(input_tokens=1, output_tokens=3)
    table = PriceTable({"m": ModelPrice(Decimal("0.00000001"), Decimal("0.3"))})
    assert priced(usage, "m", table).cost == "0.00000090000001"
    assert priced(Usage(), "m", table).cost == "0"
    assert priced(usage, "another", table).cost is None
    table = PriceTable({"m": ModelPrice(Decimal("999999999.99999999"), Decimal(0))})
    assert priced(Usage(input_tokens=2_000_000_000), "m", table).cost == "1999999999999.99998"


FILE = {
    "type": "file",
    "source": {"artifact_id": "a1"},
    "name": "cat.png",
    "content_type": "image/png",
    "processing_strategy": "vision",
    "detail": "low",
}


def test_a_file_that_was_said_is_a_reference_with_the_facts_about_it() -> None:
    address = "https://example.com/a.png"
    on_the_web = {"type": "image_url", "image_url": {"url": address, "detail": "high"}}
    said = HistoryMessage.model_validate(
        {"role": "user", "content": [{"type": "text", "text": "Look."}, FILE, on_the_web]}
    )
    sent = AddMessages.decode(AddMessages(session_id="s", messages=[said]).encode())
    [message] = history_of(sent.messages)
    cat = ArtifactPart("a1", "cat.png", "image/png", "vision", detail="low")
    assert message == UserMessage((TextPart("Look."), cat, ImagePart(address, "high")))
    assert message_from_row(*message_to_row(message)) == message


def test_only_the_user_says_files() -> None:
    with pytest.raises(ValidationFailed, match="only user messages"):
        history_of([HistoryMessage.model_validate({"role": "assistant", "content": [FILE]})])

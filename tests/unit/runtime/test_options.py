"""Options of a turn: which go before the agent's own settings, and which are refused by name."""

from typing import Any

import pytest

from libs.contracts.resources.turns import ModelSettings, NamedTool, TurnOptions
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.models import OptionNotSupported
from services.runtime.domain.options import OptionCheck

TALKS = AgentSpec(
    "llm_agent", system_prompt="Be kind.", model="some:model", settings=ModelSettings(temperature=0.3, max_tokens=100)
)
_CALLS = ["tool_choice", "parallel_tool_calls"]
ACTS = AgentSpec("react_agent", model="some:model", tools=("echo",))


class Models:
    """Their provider ignores the options with these names."""

    def __init__(self, *ignored: str) -> None:
        self._ignored = ignored

    def unsupported(self, _model: str, options: Any) -> list[str]:
        return [option for option in options if option in self._ignored]


def test_an_agent_without_options_is_the_same() -> None:
    assert TALKS.with_options(None) is TALKS
    assert TALKS.with_options(TurnOptions()) == TALKS


def test_options_go_before_the_agents_own_settings() -> None:
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
    check, given = OptionCheck(Models(*ignored)), TurnOptions.model_validate(options)
    if not refused:
        check(given, agent)
        return
    with pytest.raises(OptionNotSupported) as refusal:
        check(given, agent)
    assert [detail.loc for detail in refusal.value.details or ()] == [["options", name] for name in refused]


@pytest.mark.parametrize(("choice", "forced"), [(None, None), ("auto", None), ("none", None), ("required", "required")])
def test_only_some_choices_force_a_call(choice: Any, forced: str | None) -> None:
    assert ModelSettings(tool_choice=choice).forced_call == forced
    named = NamedTool(name="echo")
    assert ModelSettings(tool_choice=named).forced_call == named

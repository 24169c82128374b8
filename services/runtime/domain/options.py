"""Checks that a turn's agent and model support its options."""

from collections.abc import Collection, Iterator
from typing import Final

from libs.contracts.errors import ErrorDetail
from libs.contracts.resources.turns import TurnOptions
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.models import ModelCatalogue, OptionNotSupported

_ABOUT_CALLS: Final = ("tool_choice", "parallel_tool_calls")


def check_options(options: TurnOptions, agent: AgentSpec, models: ModelCatalogue) -> None:
    """Raises OptionNotSupported with a detail for each option that the agent or its model would ignore."""
    asked = list(_asked(options))
    if not agent.with_options(options).calls_tools:
        _refuse([option for option in asked if option in _ABOUT_CALLS], "this agent doesn't call tools")
    _refuse(models.unsupported(agent.model, asked), f"the model {agent.model!r} doesn't support this option")


def _asked(options: TurnOptions) -> Iterator[str]:
    """Yields the names of options that change the model's default behavior."""
    for name in options.given():
        if name == "tool_choice" and options.forced_call is None:
            continue
        if name == "parallel_tool_calls" and options.parallel_tool_calls:
            continue
        yield name


def _refuse(options: Collection[str], reason: str) -> None:
    if options:
        details = [
            ErrorDetail(loc=["options", option], type="option_not_supported", message=reason, hint="remove it")
            for option in options
        ]
        raise OptionNotSupported(f"{', '.join(options)}: {reason}", details=details)

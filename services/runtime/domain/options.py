"""Checks that a turn's agent and model support its options."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.errors import ErrorDetail
from libs.contracts.resources.turns import NamedTool, TurnOptions
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.models import OptionNotSupported


class SupportedOptions(Protocol):
    def unsupported(self, model: str, options: Collection[str]) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class OptionCheck:
    """Rejects options that would be ignored."""

    models: SupportedOptions

    def __call__(self, options: TurnOptions, agent: AgentSpec) -> None:
        """Raises OptionNotSupported with one detail per option."""
        asked = list(_about_calls(options))
        if not agent.with_options(options).calls_tools:
            _refuse(asked, "this agent calls no tools")
        if options.stop:
            asked.append("stop")
        _refuse(self.models.unsupported(agent.model, asked), f"model {agent.model!r} does not support this option")


def _about_calls(options: TurnOptions) -> Iterator[str]:
    if options.tool_choice == "required" or isinstance(options.tool_choice, NamedTool):
        yield "tool_choice"
    # True is the models' default.
    if options.parallel_tool_calls is False:
        yield "parallel_tool_calls"


def _refuse(options: Collection[str], reason: str) -> None:
    if options:
        details = [
            ErrorDetail(loc=["options", option], type="option_not_supported", message=reason, hint="leave it out")
            for option in options
        ]
        raise OptionNotSupported(f"{', '.join(options)}: {reason}", details=details)

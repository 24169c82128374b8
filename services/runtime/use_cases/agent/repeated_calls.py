"""Tells the model when a tool gives it the same answer again and again."""

from collections import Counter
from dataclasses import replace
from typing import Final

from libs.json_text import write_json
from services.runtime.domain.conversation import ToolCall, ToolResult

REPETITIONS: Final = 3


class RepeatedCalls:
    """Counts calls with the same arguments and the same answer.

    Counted in the order of the calls, from recorded results: a turn that is resumed tells its model the same.
    """

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def hinted(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """The result for the model. The record and the caller have it without the hint."""
        said = write_json(
            [call.name, call.arguments, call.validation_error, result.status, result.output], sort_keys=True
        )
        self._seen[said] += 1
        times = self._seen[said]
        return (
            result if times < REPETITIONS else replace(result, output=f"{result.output}\n\n{_hint(call.name, times)}")
        )


def _hint(name: str, times: int) -> str:
    return (
        f"[{name} has now given this same answer to the same arguments {times} times in this turn. Calling {name} like "
        "this again will not help: use what you have, or try something else.]"
    )

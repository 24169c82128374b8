"""Reads a final answer as a value of the agent's output schema, and words what is wrong with one for the model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from libs.contracts.errors import ValidationFailed
from libs.json_schema import SchemaInvalid, compile_schema
from libs.json_text import NotJson, read_json, write_json
from services.runtime.domain.conversation import JsonObject, TextPart, UserMessage

REPEATS: Final = 2
"""Times that a model is asked again after an answer that does not fit."""
_FENCED: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)\n?\s*```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Output:
    value: Any = None
    problems: tuple[str, ...] = ()


async def read_output(schema: JsonObject, text: str) -> Output:
    """The value that the text is the JSON of; code fences around it are ignored. Raises ValidationFailed."""
    try:
        compiled = compile_schema(schema)
    except SchemaInvalid as problem:
        raise ValidationFailed(f"output_schema cannot be used: {problem}") from problem
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value = read_json(fenced[1] if fenced else text)
        # What is read may be nested deeper than what can be written.
        write_json(value)
    except (NotJson, TypeError) as problem:
        return Output(problems=(f"the answer is not JSON: {problem}",))
    return Output(value, tuple(await compiled.problems(value, name="the answer")))


def correction(problems: Sequence[str]) -> UserMessage:
    """Tells the model why its answer was not accepted."""
    lines = "\n".join(f"* {problem}" for problem in problems)
    return UserMessage(
        (TextPart(f"Your answer was not accepted:\n{lines}\nAnswer again, with JSON alone that fits the schema."),)
    )

"""Validates what a model writes against untrusted schemas: the arguments of tool calls and structured output."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from libs.contracts.errors import ValidationFailed
from libs.json_schema import CompiledSchema, SchemaInvalid, compile_schema
from libs.json_text import NotJson, read_json, write_json
from services.runtime.domain.conversation import JsonObject, TextPart, UserMessage
from services.runtime.domain.tools import ToolDefinition

_COMPILED_SCHEMAS: Final = 2000
_FENCED: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)\n?\s*```", re.DOTALL)


class ArgumentSchemas:
    """An LRU cache of compiled argument schemas. Each key is the identity of a schema's dict."""

    def __init__(self) -> None:
        # A compiled schema holds a reference to its dict, so no other dict can reuse the ID.
        self._compiled: OrderedDict[int, CompiledSchema] = OrderedDict()

    async def problems(self, definition: ToolDefinition, arguments: JsonObject) -> list[str]:
        """Returns the problems found in the arguments, or in the schema, which is untrusted."""
        try:
            return await self._schema(definition.parameters).problems(arguments, name="arguments")
        except SchemaInvalid as problem:
            return [f"the tool's `parameters` aren't a valid JSON Schema ({problem})"]

    def _schema(self, schema: JsonObject) -> CompiledSchema:
        known = self._compiled.get(id(schema))
        if known is None:
            known = self._compiled[id(schema)] = compile_schema(schema)
            if len(self._compiled) > _COMPILED_SCHEMAS:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(id(schema))
        return known


@dataclass(frozen=True, slots=True)
class Output:
    value: Any = None
    problems: tuple[str, ...] = ()


async def read_output(schema: JsonObject, text: str) -> Output:
    """Parses and validates the answer's JSON, ignoring a code fence. Raises ValidationFailed for an invalid schema."""
    try:
        compiled = compile_schema(schema)
    except SchemaInvalid as problem:
        raise ValidationFailed(f"output_schema can't be used: {problem}.") from problem
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value = read_json(fenced[1] if fenced else text)
        # A value that can be parsed may be nested too deeply to be encoded.
        write_json(value)
    except (NotJson, TypeError) as problem:
        return Output(problems=(f"the answer isn't JSON: {problem}",))
    return Output(value, tuple(await compiled.problems(value, name="the answer")))


def correction(problems: Sequence[str]) -> UserMessage:
    """Creates a message that tells the model why its answer was rejected."""
    lines = "\n".join(f"* {problem}" for problem in problems)
    return UserMessage(
        (TextPart(f"Your answer was rejected:\n{lines}\nAnswer again with JSON only. It must match the schema."),)
    )

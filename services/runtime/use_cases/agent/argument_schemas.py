"""Checks the arguments of calls against the schemas of their tools."""

from collections import OrderedDict
from typing import Final

from libs.json_schema import CompiledSchema, SchemaInvalid, compile_schema
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolDefinition

_COMPILED_SCHEMAS: Final = 2000


class ArgumentSchemas:
    """Compiled schemas of arguments, the most recently used ones. A schema is known by its dict, not its content."""

    def __init__(self, capacity: int = _COMPILED_SCHEMAS) -> None:
        self._capacity = capacity
        # A compiled schema keeps its dict: while it lives, no other has its id.
        self._compiled: OrderedDict[int, CompiledSchema] = OrderedDict()

    async def problems(self, definition: ToolDefinition, arguments: JsonObject) -> list[str]:
        """Findings about the arguments; the schema of a stranger may be the one that is wrong."""
        try:
            return await self._schema(definition.parameters).problems(arguments, name="arguments")
        except SchemaInvalid as problem:
            return [f"the tool's description has parameters that are no usable JSON Schema ({problem})"]

    def _schema(self, schema: JsonObject) -> CompiledSchema:
        known = self._compiled.get(id(schema))
        if known is None:
            known = self._compiled[id(schema)] = compile_schema(schema)
            if len(self._compiled) > self._capacity:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(id(schema))
        return known

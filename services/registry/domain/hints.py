"""Hints on how to fix the findings of configuration checks."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel

from libs.contracts.findings import did_you_mean_any
from libs.contracts.models import SearchMode
from libs.contracts.resources.agents import (
    AgentSettings,
    AgentType,
    Approval,
    ClientTool,
    KnowledgeBaseLink,
    LlmConfig,
    ToolPolicy,
)

_NESTED: Final[Mapping[str, type[BaseModel]]] = {
    "llm_config": LlmConfig,
    "knowledge_bases": KnowledgeBaseLink,
    "tool_policies": ToolPolicy,
    "client_tools": ClientTool,
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "agent_type": get_args(AgentType),
    "mode": get_args(SearchMode),
    "approval": get_args(Approval),
}
_EXAMPLES: Final = {
    "name": 'name: "Support assistant"',
    "agent_type": "agent_type: llm_agent (conversational) or agent_type: react_agent (uses tools)",
    "id": "id: the ID of a knowledge base",
}
_SHAPES: Final = {
    "": "use an object with name and agent_type",
    "llm_config": "use an object, for example llm_config: {model: openai:gpt-4o-mini, temperature: 0.2}",
    "tools": "use a list of tool names, for example tools: [calculator]",
    "knowledge_bases": "use a list of knowledge base IDs, or of objects with an id",
    "tool_policies": "use an object with tool names as keys, for example {calculator: {approval: always}}",
    "client_tools": "use a list of objects, for example client_tools: [{name: open_door, parameters: {type: object}}]",
    "output_schema": "use a JSON Schema object",
}
_TYPES: Final = {
    "string_type": "use a string; quote values that YAML reads as a number, a date or yes/no",
    "string_unicode": "remove the unpaired surrogates, which aren't valid Unicode",
    "bool_type": "use true or false, without quotes",
    "float_type": "use a number, without quotes",
    "int_type": "use a whole number, without quotes",
    "int_from_float": "use a whole number",
}
_BOUNDS: Final = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_SHAPE_ERRORS: Final = ("list_type", "model_type", "model_attributes_type", "dict_type")
_RANGE_ERRORS: Final = ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number")
# Names are suggested if their similarity is within this distance of the best name's similarity.
_CLOSE_CALL: Final = 0.15
# Field names need a higher similarity: two common letters, as in `foo` and `tools`, aren't enough.
_FIELD_LIKENESS: Final = 0.55

Loc = tuple[str | int, ...]


def near(word: str, known: Iterable[str], prefix: str = "", *, likeness: float = 0.5) -> str | None:
    """Returns ``did you mean '…'?`` with the known names that are most similar to the word, or None.

    ``likeness`` is the minimum similarity, from 0 to 1. ``prefix`` is prepended to each name.
    """
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=3, cutoff=likeness)
    if not close:
        return None
    ratios = [difflib.SequenceMatcher(None, name, word.casefold()).ratio() for name in close]
    best = [by_folded[name] for name, ratio in zip(close, ratios, strict=True) if ratios[0] - ratio < _CLOSE_CALL]
    return did_you_mean_any(prefix + name for name in best)


def hint_for(
    model: type[BaseModel], loc: Loc, error_type: str, context: Mapping[str, Any], value: object
) -> str | None:
    """Returns a hint on how to fix a Pydantic error, or None. ``value`` is the invalid value."""
    field = next((step for step in reversed(loc) if isinstance(step, str)), "")
    if error_type == "extra_forbidden":
        return _unknown_field(model, loc)
    if error_type == "literal_error":
        choices = _CHOICES.get(field, ())
        return near(str(value), choices) or f"use one of: {', '.join(choices)}"
    if error_type == "missing":
        return f"add {_EXAMPLES.get(field, field)}"
    if error_type in _RANGE_ERRORS:
        return _range(_owner(model, loc), field)
    if error_type in ("string_too_short", "too_short"):
        return f"use a length of at least {context['min_length']}"
    if error_type in ("string_too_long", "too_long"):
        return f"use a length of at most {context['max_length']}"
    if error_type in _SHAPE_ERRORS or (loc[:1] == ("knowledge_bases",) and len(loc) == 2):
        return _SHAPES.get(field)
    return _TYPES.get(error_type)


def _owner(model: type[BaseModel], loc: Loc) -> type[BaseModel]:
    return _NESTED[str(loc[0])] if len(loc) > 1 and loc[0] in _NESTED else model


def _unknown_field(model: type[BaseModel], loc: Loc) -> str:
    name, owner = str(loc[-1]), _owner(model, loc)
    if owner is model:
        for parent, nested in _NESTED.items():
            if parent in model.model_fields and name in nested.model_fields and name != "id":
                return f"move {name} under {parent}"
        if name in AgentSettings.model_fields:
            return f"{name} is a setting of stored agents, not part of the configuration"
    hint = near(name, owner.model_fields, likeness=_FIELD_LIKENESS)
    return hint or f"use one of these fields: {', '.join(owner.model_fields)}"


def _range(owner: type[BaseModel], field: str) -> str | None:
    info = owner.model_fields.get(field)
    if info is None:
        return None
    bounds = [
        f"{words} {getattr(constraint, name)}"
        for constraint in info.metadata
        for name, words in _BOUNDS.items()
        if hasattr(constraint, name)
    ]
    return f"use a value of {' and '.join(bounds)}" if bounds else None

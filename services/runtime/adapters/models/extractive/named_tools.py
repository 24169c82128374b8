"""The built-in model's calls of tools that a question names: "the seat count of crossing 7" calls `seat_count`."""

import re
from collections.abc import Sequence
from typing import Any, Final

from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolDefinition

_WITH_RULES: Final = frozenset(
    {
        "artifact_create", "artifact_read", "artifact_search", "calculator", "current_time", "http_get",
        "knowledge_search", "table_query",
    }
)  # fmt: skip
"""Built-in tools, which rules of their own or nothing calls."""
_BETWEEN: Final = re.compile(r"^\s*[:=#]?\s*(?:(?:is|of|number|no\.)\s+)?", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_QUOTED: Final = re.compile(r"[\"“]([^\"”]{1,500})[\"”]")
_WORD: Final = re.compile(r"([\w./@-]{0,200}\w)")


def named_calls(question: str, tools: Sequence[ToolDefinition]) -> list[tuple[str, JsonObject]]:
    """Names and arguments of the calls. A tool whose required arguments the question does not give is left out."""
    calls = []
    for tool in tools:
        if tool.name not in _WITH_RULES and _is_named(tool.name, question):
            arguments = _arguments(question, tool.parameters)
            if arguments is not None:
                calls.append((tool.name, arguments))
    return calls


def _is_named(name: str, question: str) -> bool:
    if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", question, re.IGNORECASE):
        return True
    words = _words(name.rpartition(".")[2])
    return len(words) > 1 and _said(words, question) is not None


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]


def _said(words: Sequence[str], question: str) -> re.Match[str] | None:
    phrase = r"\s+".join(map(re.escape, words))
    return re.search(rf"\b{phrase}\b", question, re.IGNORECASE)


def _arguments(question: str, parameters: JsonObject) -> JsonObject | None:
    properties, required = parameters.get("properties"), parameters.get("required") or ()
    found: JsonObject = {}
    for name, schema in (properties if isinstance(properties, dict) else {}).items():
        value = _value(name, schema if isinstance(schema, dict) else {}, question)
        if value is not None:
            found[name] = value
    return found if all(name in found for name in required) else None


def _value(name: str, schema: dict[str, Any], question: str) -> Any:
    """The value that the question gives a parameter: it stands right after its name, a text perhaps in quotes."""
    said = _said(_words(name), question) if _words(name) else None
    if said is None:
        return None
    after = _BETWEEN.sub("", question[said.end() :], count=1)
    match schema.get("type"):
        case "integer" | "number" as kind:
            number = re.match(_NUMBER, after)
            if number is None:
                return None
            return float(number[0]) if kind == "number" or "." in number[0] else int(number[0])
        case "string":
            text = _QUOTED.match(after) or _WORD.match(after)
            return None if text is None else text[1]
        case _:
            return None

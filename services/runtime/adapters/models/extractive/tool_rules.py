"""Selects the built-in model's tool calls by simple rules."""

import re
from collections.abc import Sequence
from typing import Any, Final
from zoneinfo import available_timezones

from services.runtime.adapters.models.extractive.tables import tables_in, wanted_query
from services.runtime.domain.conversation import ArtifactPart, JsonObject
from services.runtime.domain.tools import ToolDefinition

_WITH_RULES: Final = frozenset(
    {
        "artifact_create", "artifact_read", "artifact_search", "calculator", "current_time", "http_get",
        "knowledge_search", "table_query",
    }
)  # fmt: skip
"""Built-in tools that `named_calls` skips, because they have their own rules or are never called."""
_BETWEEN: Final = re.compile(r"^\s*[:=#]?\s*(?:(?:is|of|number|no\.)\s+)?", re.IGNORECASE)
_GIVEN_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_QUOTED: Final = re.compile(r"[\"“]([^\"”]{1,500})[\"”]")
_GIVEN_WORD: Final = re.compile(r"([\w./@-]{0,200}\w)")


def named_calls(question: str, tools: Sequence[ToolDefinition]) -> list[tuple[str, JsonObject]]:
    """Returns the tools that the question names, with their arguments. Skips tools whose arguments are incomplete."""
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
    return len(words) > 1 and _mention(words, question) is not None


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]


def _mention(words: Sequence[str], question: str) -> re.Match[str] | None:
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
    """Returns the value that follows the parameter's name in the question, or None. Strings may be quoted."""
    mention = _mention(_words(name), question) if _words(name) else None
    if mention is None:
        return None
    after = _BETWEEN.sub("", question[mention.end() :], count=1)
    match schema.get("type"):
        case "integer" | "number" as kind:
            number = _GIVEN_NUMBER.match(after)
            if number is None:
                return None
            return float(number[0]) if kind == "number" or "." in number[0] else int(number[0])
        case "string":
            text = _QUOTED.match(after) or _GIVEN_WORD.match(after)
            return None if text is None else text[1]
        case _:
            return None


_LONGEST_QUESTION = 1000
_WORDS = (
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\bthe (?:square )?root of\b|\bsquare root of\b", re.IGNORECASE), "sqrt"),
    (re.compile(r"\bto the power of\b|\braised to\b", re.IGNORECASE), "^"),
    (re.compile(r"\bfactorial of (\d+)|(\d+) factorial\b", re.IGNORECASE), r"\1\2!"),
    (re.compile(r"\bsquared\b", re.IGNORECASE), "^2"),
    (re.compile(r"\bcubed\b", re.IGNORECASE), "^3"),
    (re.compile(r"\b(?:percent|per cent)\b", re.IGNORECASE), "%"),
    (re.compile(r"%\s*of\b", re.IGNORECASE), "% *"),
    (re.compile(r"\bplus\b", re.IGNORECASE), "+"),
    (re.compile(r"\bminus\b", re.IGNORECASE), "-"),
    (re.compile(r"\b(?:times|multiplied by)\b|[\u00d7\u00b7]|(?<=[\d)])\s*x\s*(?=[\d(])", re.IGNORECASE), "*"),
    (re.compile(r"\b(?:divided by|over)\b|\u00f7", re.IGNORECASE), "/"),
    (re.compile(r"\bmod(?:ulo)?\b", re.IGNORECASE), "mod"),
    (re.compile(r"\bsqrt\s+(\d+(?:\.\d+)?)"), r"sqrt(\1)"),
)
_NUMBER = r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|pi)"
_FUNCTION = r"(?:sqrt|abs|ln|log10|log|exp|sin|cos|tan|min|max|round|floor|ceil)\s*\("
_ATOM = rf"(?:{_FUNCTION}|[-+(]\s*)*{_NUMBER}(?:\s*[)!%,])*"
_EXPRESSION = re.compile(rf"{_ATOM}(?:\s*(?:\*\*|//|mod|[-+*/^,])\s*{_ATOM})*", re.IGNORECASE)
_NOT_ARITHMETIC = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}/\d{1,2}/\d{2,4}|https?://\S+|\+?\d+(?:-\d+){2,}|\b\d+-\d+\b(?!\s*[=*/+])|\b24/7\b"
)
_ASKS_FOR_RESULT = re.compile(
    r"\b(?:what(?:'s| is| are)|calculate|compute|work out|evaluate|how much|how many|result|sum|solve)\b|=",
    re.IGNORECASE,
)
_ASKS_TIME = re.compile(
    r"\bwhat(?:'s| is)? (?:the )?(?:current )?(?:local )?(?:time|date|day)\b"
    r"(?! (?:limit|frame|zone|of (?!day|the week)))"
    r"|\b(?:current|today's|local) (?:time|date)\b|\bthe time (?:is it )?(?:now|in [A-Z])"
    r"|\bwh(?:at|ich) day is (?:it|today)\b|\btime is it\b",
    re.IGNORECASE,
)
_ZONE = re.compile(r"\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?\b")
_PLACE = re.compile(r"\bin ((?:[A-Z][a-z]+)(?: [A-Z][a-z]+)*)")


def wanted_calls(
    question: str, tools: Sequence[ToolDefinition], files: Sequence[tuple[str, ArtifactPart]]
) -> list[tuple[str, JsonObject]]:
    """Returns the calls to `tools` that help to answer `question`. If there are `files`, search tools aren't called."""
    asked = question.strip()[:_LONGEST_QUESTION]
    offered = {tool.name for tool in tools}
    calls: list[tuple[str, JsonObject]] = []
    if "calculator" in offered and (expression := arithmetic(asked)):
        calls.append(("calculator", {"expression": expression}))
    if "current_time" in offered and _ASKS_TIME.search(asked):
        zone = time_zone(asked)
        calls.append(("current_time", {"timezone": zone} if zone else {}))
    calls += named_calls(asked, tools)
    if not calls and "table_query" in offered:
        tables = [table for text, file in files for table in tables_in(text, file)]
        if query := wanted_query(asked, tables):
            calls.append(("table_query", query))
    if not calls and not files and asked:
        calls += [(name, {"query": asked}) for name in ("knowledge_search", "artifact_search") if name in offered]
    return calls


def arithmetic(question: str) -> str | None:
    """Returns the longest arithmetic expression in `question`, or None if it doesn't ask for a calculation."""
    text = _NOT_ARITHMETIC.sub(" ; ", question)
    for pattern, sign in _WORDS:
        text = pattern.sub(sign, text)
    found = [_balanced(match.group().strip(" ,")) for match in _EXPRESSION.finditer(text)]
    expressions = [expression for expression in found if expression and _has_operation(expression)]
    if not expressions:
        return None
    longest = max(expressions, key=len)
    alone = len(longest) >= 0.6 * len(text.strip(" ?.=!"))
    return longest if alone or _ASKS_FOR_RESULT.search(question) else None


def _has_operation(expression: str) -> bool:
    if re.search(r"[a-z]\w*\s*\(|!", expression):
        return True
    return re.search(r"[\d)!%]\s*(?:\*\*|//|mod|[-+*/^])\s*[-+(\w]", expression) is not None


def _balanced(expression: str) -> str:
    """Removes outer brackets that belong to the surrounding sentence. Returns "" if the rest is unbalanced."""
    while expression.count("(") > expression.count(")") and expression.startswith("("):
        expression = expression[1:].strip()
    while expression.count(")") > expression.count("(") and expression.endswith(")"):
        expression = expression[:-1].strip()
    return expression if expression.count("(") == expression.count(")") else ""


def time_zone(question: str) -> str | None:
    """Returns the IANA time zone that `question` names, directly or by a city, or None."""
    zones = available_timezones()
    named = [zone for zone in _ZONE.findall(question) if zone in zones]
    if named:
        return str(named[0])
    cities = {zone.rsplit("/", 1)[-1]: zone for zone in sorted(zones, reverse=True)}
    for place in _PLACE.findall(question):
        words = place.split()
        for count in range(len(words), 0, -1):
            if zone := cities.get("_".join(words[:count])):
                return zone
    return "UTC" if re.search(r"\b(?:UTC|GMT)\b", question) else None

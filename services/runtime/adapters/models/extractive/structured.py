"""Converts an extractive answer to JSON. Only simple schemas are supported."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from services.runtime.adapters.models.extractive.sentences import content_words, sentences
from services.runtime.domain.conversation import JsonObject

MISSING: Final = object()
"""Marks a value that the text doesn't contain. If the value is required, the answer fails validation."""
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_NEGATION: Final = re.compile(r"\b(?:no|not|never|none|nothing|without|cannot)\b", re.IGNORECASE)
_SOURCES: Final = re.compile(r"\n\n\[1\] [^\n]*\Z")
_CITED: Final = re.compile(r" ?\[\d+\]")
_DEEPEST: Final = 8


@dataclass(frozen=True, slots=True)
class Filling:
    """Fills an output schema with values from ``sentences``, those of the model's answer."""

    root: JsonObject
    sentences: Sequence[str]

    def value(self, schema: JsonObject, name: str = "", depth: int = 0) -> Any:
        """Returns a value for the property ``name`` with this schema, or MISSING if the sentences don't contain one."""
        schema = self._resolved(schema)
        if depth > _DEEPEST:
            return MISSING
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            text = " ".join(self.sentences).lower()
            return next((each for each in schema["enum"] if str(each).lower() in text), MISSING)
        for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            if (value := self.value(choice, name, depth + 1)) is not MISSING:
                return value
        return self._of_type(schema, name, depth)

    def _of_type(self, schema: JsonObject, name: str, depth: int) -> Any:
        types = schema.get("type", "object" if "properties" in schema else "string")
        kind = next((each for each in types if each != "null"), "null") if isinstance(types, list) else types
        sentence = self._best(f"{name.replace('_', ' ')} {schema.get('description', '')}")
        match kind:
            case "object":
                found = {key: self.value(each, key, depth + 1) for key, each in schema.get("properties", {}).items()}
                return {key: each for key, each in found.items() if each is not MISSING}
            case "array":
                return self._items(schema, name, depth)
            case "string":
                return sentence[: schema.get("maxLength", len(sentence))]
            case "integer" | "number":
                return _number(sentence, whole=kind == "integer")
            case "boolean":
                return _NEGATION.search(sentence) is None
            case _:
                return None

    def _items(self, schema: JsonObject, name: str, depth: int) -> Any:
        items, most = schema.get("items", {}), schema.get("maxItems", len(self.sentences))
        each = [Filling(self.root, [sentence]).value(items, name, depth + 1) for sentence in self.sentences]
        return [value for value in each if value is not MISSING][:most]

    def _best(self, wanted: str) -> str:
        """Returns the sentence that shares the most words with ``wanted``. If several do, returns the first of them."""
        words = set(content_words(wanted))
        return max(self.sentences, key=lambda sentence: len(words & set(content_words(sentence))), default="")

    def _resolved(self, schema: JsonObject) -> JsonObject:
        for _ in range(_DEEPEST):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            found: Any = self.root
            for part in reference.removeprefix("#").strip("/").split("/"):
                found = found.get(part, {}) if part and isinstance(found, dict) else found
            schema = found
        return schema


def structured(schema: JsonObject, text: str) -> Any:
    """Returns a value for the schema from an answer's text, or MISSING if the text has no suitable value."""
    text = _CITED.sub("", _SOURCES.sub("", text))
    texts = [sentence.text for sentence in sentences(text)] or [text]
    return Filling(schema, texts).value(schema)


def _number(sentence: str, *, whole: bool) -> Any:
    """Returns the sentence's first number, preferably after an equals sign, as in a calculation's result."""
    found = _NUMBER.findall(sentence.rpartition("=")[2]) or _NUMBER.findall(sentence)
    numbers = [float(each) for each in found]
    number = next((each for each in numbers if not whole or each.is_integer()), None)
    if number is None:
        return MISSING
    return int(number) if number.is_integer() else number

"""Creates example bodies for schemas.

Values come from the example request, from the model's `EXAMPLES`, from `samples.toml` or from the schema.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from libs.contracts.wire_examples import ids, views
from tools.reference.references import Schema, name_of, resolved

_SAMPLES: Final = tomllib.loads(Path(__file__).with_name("samples.toml").read_text())
_VALUES: Final[Mapping[str, Any]] = _SAMPLES["values"]
_IDS: Final = {field.removesuffix("_id").replace("_", ""): identifier for field, identifier in ids().items()}
_OMITTED: Final = frozenset(_SAMPLES["omitted"])
_SHOWN: Final = frozenset(_SAMPLES["shown"])
_TIME: Final = "2026-05-04T08:16:15.239240Z"


class Examples:
    """Example bodies for an operation. Response fields have the same values as in the example request ``given``."""

    def __init__(self, document: Schema, given: Any) -> None:
        self._document = document
        self._given: Mapping[str, Any] = given if isinstance(given, dict) else {}

    def body(self, schema: Schema) -> Any:
        name, resolved = self._resolved(schema)
        return self._value(name, resolved, self._given)

    def _value(self, name: str, schema: Schema, given: Mapping[str, Any]) -> Any:
        """``name`` is the model, or the model and the field."""
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._chosen(name, options, given)
        match schema:
            case {"const": value}:
                return value
            case {"enum": [value, *_]}:
                return value
            case {"properties": fields}:
                shown = {field: each for field, each in fields.items() if f"{name}.{field}" not in _OMITTED}
                return {field: self._field(name, field, each, given) for field, each in shown.items()}
            case {"type": "array", "items": items}:
                model, item = self._resolved(items)
                return [self._value(model or name, item, {})]
            case {"type": "string", "format": "date-time"}:
                return _TIME
            case {"type": "boolean"}:
                return bool(schema.get("default", True))
            case {"type": "integer" | "number" | "string", "default": value} if value not in ("", None):
                return value
            case {"type": "object"}:
                return {}
        raise ValueError(f"{name} has no example: add one to samples.toml")

    def _chosen(self, name: str, options: list[Schema], given: Mapping[str, Any]) -> Any:
        if {"type": "null"} in options and name not in _SHOWN:
            return None
        model, schema = self._resolved(next(each for each in options if each != {"type": "null"}))
        return self._value(model or name, schema, given)

    def _field(self, model: str, field: str, schema: Schema, given: Mapping[str, Any]) -> Any:
        name = f"{model}.{field}"
        if field in given:
            return given[field]
        if field in views().get(model, {}):
            return views()[model][field]
        if name in _VALUES:
            return _VALUES[name]
        if examples := schema.get("examples"):
            return examples[0]
        if field in _VALUES:
            return _VALUES[field]
        referred, resolved = self._resolved(schema)
        if resolved.get("type") == "string" and "format" not in resolved and (field == "id" or field.endswith("_id")):
            of = model.removeprefix("Issued").removesuffix("Reply") if field == "id" else field.removesuffix("_id")
            return _identifier(of)
        return self._value(referred or name, resolved, {})

    def _resolved(self, schema: Schema) -> tuple[str, Schema]:
        """Returns the name of the schema's model, or an empty string, and the schema."""
        return name_of(schema), resolved(schema, self._document)


def path(template: str) -> str:
    """Returns an example URL with path parameters and a query."""
    parts = template.split("/")
    for before, (number, part) in zip(parts, enumerate(parts[1:], start=1), strict=False):
        if part.startswith("{"):
            parts[number] = _path_value(before, part.strip("{}"))
    query = _SAMPLES["queries"].get(template)
    return "/".join(parts) + (f"?{query}" if query else "")


def _path_value(before: str, parameter: str) -> str:
    name = before.removesuffix("s") if parameter == "id" else parameter.removesuffix("_id")
    return str(_SAMPLES["paths"].get(f"{before}/{parameter}", _identifier(name)))


def _identifier(of: str) -> str:
    """Returns an example ID. A model's `id` and the fields that refer to the model have the same value."""
    noun = of.lower().replace("_", "")
    if known := _IDS.get(noun):
        return known
    digits = hashlib.sha256(noun.encode()).hexdigest()
    return f"01980f52-{digits[:4]}-7{digits[4:7]}-9{digits[7:10]}-{digits[10:22]}"

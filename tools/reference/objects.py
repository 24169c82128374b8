"""Renders objects of requests, responses and events: their fields with every constraint."""

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tools.reference.markdown import table
from tools.reference.references import Schema, name_of

_WORDS: Final = frozenset({"title", "description", "example", "examples"})
_RANGES: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " fields"),
)


class Objects:
    """The named schemas of a document, each described on one page.

    ``pages``: the page of each schema, relative to docs/reference. A keyword that the pages don't show raises
    ValueError, so that no change of a schema goes unnoticed.
    """

    def __init__(self, schemas: Mapping[str, Schema], pages: Mapping[str, str]) -> None:
        self._schemas = schemas
        self._pages = pages

    def of_page(self, page: str) -> Iterator[str]:
        """Returns a section with the objects described on the page."""
        own = sorted(name for name, home in self._pages.items() if home == page and name in self._schemas)
        if own:
            yield "## Objects\n"
        yield from (f"### {name}\n\n{self.description(name)}" for name in own)

    def description(self, name: str) -> str:
        """Describes an object on its page."""
        return "\n".join(self._described(self._schemas[name], self._pages[name]))

    def fields(self, schema: Schema, page: str) -> str:
        """Renders fields as a table."""
        return table(("field", "type"), ((f"`{name}`", text) for name, text in self._typed_fields(schema, page)))

    def type(self, schema: Schema, page: str) -> str:
        """Describes a schema in words that link to its objects."""
        left = {keyword: value for keyword, value in schema.items() if keyword not in _WORDS}
        kind = self._kind(left, page)
        rules = [*_ranges(left), *(f"matching {_code(left.pop('pattern'))}" for _ in range("pattern" in left))]
        if "items" in left:
            items = self.type(left.pop("items"), page)
            text = f"{kind}, {', '.join(rules)}, of {items}" if rules else f"{kind} of {items}"
        else:
            text = ", ".join([kind, *rules])
        if (default := left.pop("default", None)) is not None:
            text += f", default {_code(json.dumps(default, ensure_ascii=False))}"
        if left:
            raise ValueError(f"pages can't show {', '.join(left)}")
        return text

    def _described(self, schema: Schema, page: str) -> Iterator[str]:
        if description := schema.get("description"):
            yield " ".join(description.replace("``", "`").split()) + "\n"
        if schema.get("type") != "object" or "properties" not in schema:
            options = schema.get("oneOf")
            if options is None:
                yield f"{_capital(self.type(schema, page))}.\n"
            else:
                yield f"One of{_discriminated(schema)}:\n\n" + "".join(
                    f"* {self.type(each, page)}\n" for each in options
                )
            return
        yield self.fields(schema, page)
        if others := self._others(schema.get("additionalProperties"), page):
            yield f"{_capital(others)}.\n"

    def _typed_fields(self, schema: Schema, page: str) -> Iterator[tuple[str, str]]:
        known = _WORDS | {"type", "properties", "required", "additionalProperties"}
        if unknown := schema.keys() - known:
            raise ValueError(f"pages can't show {', '.join(sorted(unknown))}")
        required = schema.get("required", ())
        for name, each in schema["properties"].items():
            yield name if name in required else f"{name}?", self.type(each, page)

    def _others(self, others: Any, page: str) -> str:
        """Returns whether an object can have unknown fields."""
        if others is None:
            return ""
        if isinstance(others, bool):
            return f"other fields are {'allowed' if others else 'rejected'}"
        return f"other fields are {self.type(others, page)}"

    def _kind(self, left: dict[str, Any], page: str) -> str:
        """Returns the type without its constraints. Removes the keywords that it shows."""
        if "$ref" in left:
            return self._link(name_of({"$ref": left.pop("$ref")}), page)
        kind = left.pop("type", "anything")
        if "const" in left:
            return _code(_literal(left.pop("const")))
        if "enum" in left:
            return f"one of {', '.join(_code(_literal(value)) for value in left.pop('enum'))}"
        if options := left.pop("anyOf", None) or left.pop("oneOf", None):
            chosen = _discriminated(left)
            left.pop("discriminator", None)
            return _either(self.type(each, page) for each in options) + chosen
        if kind == "object":
            return self._object(left, page)
        if "contentSchema" in left:
            return f"{kind} with {_code(left.pop('contentMediaType'))}: {self.type(left.pop('contentSchema'), page)}"
        return f"{kind} ({left.pop('format')})" if "format" in left else str(kind)

    def _object(self, left: dict[str, Any], page: str) -> str:
        text = "object"
        if "properties" in left:
            inner = {"properties": left.pop("properties"), "required": left.pop("required", ())}
            fields = (f"`{name}`: {each}" for name, each in self._typed_fields(inner, page))
            text += f" with {'; '.join(fields)}"
        for pattern, each in left.pop("patternProperties", {}).items():
            text += f" of {self.type(each, page)}, with keys matching {_code(pattern)}"
        match left.pop("additionalProperties", None):
            case Mapping() as each:
                text += f" of {self.type(each, page)}"
            case True:
                text += " with any fields"
            case False:
                text += ", without other fields"
        if "propertyNames" in left:
            text += f", with keys of {self.type({'type': 'string', **left.pop('propertyNames')}, page)}"
        return text

    def _link(self, name: str, page: str) -> str:
        home = self._pages[name]
        file = "" if home == page else posixpath.relpath(home, posixpath.dirname(page))
        return f"[{name}]({file}#{name.lower()})"


def _discriminated(schema: Schema) -> str:
    field = schema.get("discriminator", "")
    return f", by `{field if isinstance(field, str) else field['propertyName']}`" if field else ""


def _either(options: Iterable[str]) -> str:
    listed = [*options]
    return (", or " if any("," in each for each in listed) else " or ").join(listed)


def _ranges(left: dict[str, Any]) -> Iterator[str]:
    for least, most, units in _RANGES:
        low, high = left.pop(least, None), left.pop(most, None)
        unit = units.removesuffix("s") if 1 in (low, high) and None in (low, high) else units
        if low is not None and high is not None:
            yield f"{_number(low)} to {_number(high)}{unit}"
        elif low is not None:
            yield f"at least {_number(low)}{unit}"
        elif high is not None:
            yield f"at most {_number(high)}{unit}"
    if (above := left.pop("exclusiveMinimum", None)) is not None:
        yield f"more than {_number(above)}"
    if (below := left.pop("exclusiveMaximum", None)) is not None:
        yield f"less than {_number(below)}"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _number(value: float) -> str:
    return f"{int(value) if value == int(value) else value:,}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

"""Describes the objects in requests, responses and events."""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tools.reference.markdown import table
from tools.reference.references import Schema, name_of

_WORDS: Final = frozenset({"title", "description", "example", "examples"})
_PLURALS: Final = {
    "string": "strings",
    "string (binary)": "files",
    "integer": "integers",
    "number": "numbers",
    "boolean": "booleans",
    "anything": "values",
    "array of values": "arrays of values",
    "object with any fields": "objects with any fields",
}
_ASIDE: Final = re.compile(r"`` .*? ``|`[^`]*`|\([^()]*\)")


class Objects:
    """Describes a document's named schemas. Raises ValueError if a schema has a keyword that pages don't show.

    ``pages`` maps each schema to its page, relative to docs/reference.
    """

    def __init__(self, schemas: Mapping[str, Schema], pages: Mapping[str, str]) -> None:
        self._schemas = schemas
        self._pages = pages

    def of_page(self, page: str) -> Iterator[str]:
        """Yields a section with the page's objects."""
        own = sorted(name for name, home in self._pages.items() if home == page and name in self._schemas)
        if own:
            yield "## Objects\n"
        yield from (f"### {name}\n\n{self.description(name)}" for name in own)

    def description(self, name: str) -> str:
        return "\n".join(self._described(self._schemas[name], self._pages[name]))

    def fields(self, schema: Schema, page: str) -> str:
        return table(("field", "type"), ((f"`{name}`", text) for name, text in self._typed_fields(schema, page)))

    def type(self, schema: Schema, page: str) -> str:
        """Returns a schema's type in words, with links to objects."""
        kind, constraints, default = self._parts(schema, page)
        text = f"{kind}, {constraints}" if constraints else kind
        separator = ";" if _is_collection(kind) or kind.startswith("one of ") else ","
        return f"{text}{separator} {default}" if default else text

    def _parts(self, schema: Schema, page: str) -> tuple[str, str, str]:
        """Returns a schema's type, constraints and default in words."""
        left = {keyword: value for keyword, value in schema.items() if keyword not in _WORDS}
        kind, constraints = self._kind(left, page), _constraints(left)
        default = left.pop("default", None)
        if left:
            raise ValueError(f"pages can't show {', '.join(left)}")
        return kind, constraints, "" if default is None else f"default {_code(json.dumps(default, ensure_ascii=False))}"

    def _collection(self, kind: str, size: str, items: Schema, page: str) -> str:
        """Describes an array or a map, such as "array of up to 64 strings, each 1 to 200 characters"."""
        begin = f"{kind} of {size}"
        if plurals := self._plurals(items, page):
            return f"{begin}{plurals}"
        item, constraints, default = self._parts(items, page)
        if item in _PLURALS and not default:
            return f"{begin}{_PLURALS[item]}, each {constraints}" if constraints else f"{begin}{_PLURALS[item]}"
        if "$ref" in items and not constraints and not default:
            return f"{begin}{item} objects" if size else f"{begin}{item}"
        return f"{begin}{'items' if kind == 'array' else 'values'}, each {self._option(items, page)}"

    def _plurals(self, items: Schema, page: str) -> str:
        """Describes items of several types, such as "strings or integers". Returns "" for a single type."""
        if items.keys() - _WORDS - {"anyOf", "oneOf", "discriminator"}:
            return ""
        options = [self._option(each, page) for each in items.get("anyOf") or items.get("oneOf") or ()]
        if not options:
            return ""
        if all(each.startswith("[") for each in options):
            return f"{_either(options)} objects{_discriminated(items)}"
        return _either(map(_plural, options)) + _discriminated(items)

    def _option(self, schema: Schema, page: str) -> str:
        """Describes one of several types, with its constraints in parentheses."""
        kind, *others = self._parts(schema, page)
        if not (constraints := ", ".join(filter(None, others))):
            return kind
        return f"{kind.removesuffix(')')}, {constraints})" if " (" in kind else f"{kind} ({constraints})"

    def _described(self, schema: Schema, page: str) -> Iterator[str]:
        if description := schema.get("description"):
            yield " ".join(description.replace("``", "`").split()) + "\n"
        if schema.get("type") != "object" or "properties" not in schema:
            options = schema.get("oneOf")
            if options is None:
                yield f"{_capital(self.type(schema, page))}.\n"
            else:
                yield f"One of these{_discriminated(schema)}:\n\n" + "".join(
                    f"* {self.type(each, page)}\n" for each in options
                )
            return
        fields, others = self.fields(schema, page), self._others(schema.get("additionalProperties"), page)
        if schema["properties"]:
            yield fields
        else:
            others = others.replace("other", "all", 1)
        if others:
            yield f"{_capital(others)}.\n"

    def _typed_fields(self, schema: Schema, page: str) -> Iterator[tuple[str, str]]:
        known = _WORDS | {"type", "properties", "required", "additionalProperties"}
        if unknown := schema.keys() - known:
            raise ValueError(f"pages can't show {', '.join(sorted(unknown))}")
        required = schema.get("required", ())
        for name, each in schema["properties"].items():
            yield name if name in required else f"{name}?", self.type(each, page)

    def _others(self, others: Any, page: str) -> str:
        """Returns a sentence about the object's other fields, or an empty string if they aren't specified."""
        if others is None:
            return ""
        if isinstance(others, bool):
            return f"other fields are {'allowed' if others else 'rejected'}"
        return f"other fields are {self.type(others, page)}"

    def _kind(self, left: dict[str, Any], page: str) -> str:
        """Returns the type without constraints. Removes the keywords that were used from ``left``."""
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
            return _either(self._option(each, page) for each in options) + chosen
        if kind == "object":
            return self._object(left, page)
        if kind == "array":
            return self._collection("array", _size(left, "Items"), left.pop("items"), page)
        if "contentSchema" in left:
            return f"{kind} with {self.type(left.pop('contentSchema'), page)} as {_code(left.pop('contentMediaType'))}"
        return f"{kind} ({left.pop('format')})" if "format" in left else str(kind)

    def _object(self, left: dict[str, Any], page: str) -> str:
        if "properties" in left:
            inner = {"properties": left.pop("properties"), "required": left.pop("required", ())}
            return f"object with {'; '.join(f'`{name}`: {each}' for name, each in self._typed_fields(inner, page))}"
        size = _size(left, "Properties")
        others = left.pop("additionalProperties", None)
        if others is True:
            return f"object with {size or 'any '}fields"
        keys = {"type": "string", **left.pop("propertyNames", {})}
        if others is None and "patternProperties" in left:
            [(keys["pattern"], others)] = left.pop("patternProperties").items()
        if not others:
            raise ValueError("a page can't describe an object schema without properties: declare the fields")
        text = self._collection("map", size, others, page)
        return f"{text}; keys {rules}" if (rules := self.type(keys, page).removeprefix("string").lstrip(", ")) else text

    def _link(self, name: str, page: str) -> str:
        home = self._pages[name]
        file = "" if home == page else posixpath.relpath(home, posixpath.dirname(page))
        return f"[{name}]({file}#{name.lower()})"


def _discriminated(schema: Schema) -> str:
    field = schema.get("discriminator", "")
    return f", distinguished by `{field if isinstance(field, str) else field['propertyName']}`" if field else ""


def _plural(option: str) -> str:
    word, separator, constraints = option.partition(" (")
    if option.startswith("["):
        return f"{option} objects"
    return f"{_PLURALS.get(word, word)}{separator}{constraints}"


def _either(options: Iterable[str]) -> str:
    """Joins types with "or". Collections come last, because their constraints aren't in parentheses."""
    *others, last = sorted(options, key=_is_collection)
    if _is_collection(last) or any("," in _ASIDE.sub("", each) for each in others):
        return ", or ".join([*others, last])
    return f"{', '.join(others)} or {last}" if others else last


def _is_collection(kind: str) -> bool:
    return kind.startswith(("array of ", "map of "))


def _size(left: dict[str, Any], of: str) -> str:
    size = _range(left, f"min{of}", f"max{of}", "up to")
    return f"{size} " if size else ""


def _constraints(left: dict[str, Any]) -> str:
    found = []
    if length := _range(left, "minLength", "maxLength", "up to"):
        found.append(f"{length} {'character' if length.endswith(' 1') else 'characters'}")
    if (above := left.pop("exclusiveMinimum", None)) is not None:
        found.append(f"more than {_number(above)}")
    found.append(_range(left, "minimum", "maximum", "at most"))
    if (below := left.pop("exclusiveMaximum", None)) is not None:
        found.append(f"less than {_number(below)}")
    if pattern := left.pop("pattern", None):
        found.append(f"matching {_code(pattern)}")
    return ", ".join(filter(None, found))


def _range(left: dict[str, Any], least: str, most: str, below: str) -> str:
    low, high = left.pop(least, None), left.pop(most, None)
    if high is None:
        return "" if low is None else f"at least {_number(low)}"
    return f"{below} {_number(high)}" if low is None else f"{_number(low)} to {_number(high)}"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _number(value: float) -> str:
    return f"{int(value) if value == int(value) else value:,}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

"""Combines an operation's parameters and body into a single JSON object of arguments."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from libs.confined import JobRefused
from libs.json_schema import SchemaInvalid, compile_schema
from services.runtime.adapters.tools.answer_text import is_json
from services.runtime.adapters.tools.toolsets.openapi.document import Operation
from services.runtime.adapters.tools.toolsets.openapi.rendering import (
    BodyBinding,
    ParameterBinding,
    ParameterLocation,
    StyledValue,
)
from services.runtime.adapters.tools.toolsets.openapi.schemas import Schemas, distinct, is_read_only
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.toolsets import RESERVED_HEADERS

LONGEST_DESCRIPTION: Final = 1_000
_LONGEST_NAME: Final = 54
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_PLACEHOLDER: Final = re.compile(r"\{([^{}/]+)\}")
_FORM: Final = "application/x-www-form-urlencoded"
_STYLES: Final[dict[ParameterLocation, tuple[str, ...]]] = {
    "path": ("simple",),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
}
# OpenAPI says to ignore the first three.
_NO_ARGUMENTS: Final = RESERVED_HEADERS | {"accept", "authorization", "content-type", "cookie"}
_COMPOSED: Final = ("allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "nullable")


@dataclass(slots=True)
class Arguments:
    """Collects one operation's arguments, or raises JobRefused. `headers` are the toolset's lowercase header names."""

    operation: Operation
    schemas: Schemas
    headers: frozenset[str]
    _properties: JsonObject = field(default_factory=dict)
    _required: list[str] = field(default_factory=list)
    _references: set[str] = field(default_factory=set)

    def schema(self) -> JsonObject:
        label = self.operation.label
        made: JsonObject = {"type": "object", "properties": self._properties}
        if self._required:
            made["required"] = self._required
        made["additionalProperties"] = False
        if definitions := self.schemas.definitions(self._references, label):
            made["$defs"] = definitions
        try:
            compile_schema(made)
        except SchemaInvalid as problem:
            raise JobRefused(f"{label}: arguments: {problem}") from None
        return made

    def parameters(self) -> list[ParameterBinding]:
        """Adds and returns the parameters, path first. If several have the same name, only the first keeps it."""
        declared = list(self._declared())
        bindings = []
        for location in ("path", "query", "header", "cookie"):
            for found, raw in declared:
                if found.param_in.value == location and (binding := self._parameter(found, raw)) is not None:
                    bindings.append(binding)
        described = {binding.name for binding in bindings if binding.place == "path"}
        if missing := sorted(set(_PLACEHOLDER.findall(self.operation.path)) - described):
            raise JobRefused(f"{self.operation.label}: `parameters` doesn't describe {', '.join(missing)} of the path")
        return bindings

    def body(self) -> BodyBinding | None:
        """Adds the body's fields as arguments or, if that isn't possible, the whole body as one argument."""
        raw = self.operation.raw.get("requestBody")
        if raw is None or self.operation.safe:
            return None
        document, label = self.operation.document, f"{self.operation.label}: requestBody"
        raw = document.resolved(raw, label)
        parsed = document.parsed("RequestBody", {**raw, "content": {}}, label)
        media = _media_type(raw.get("content"))
        if media is None:
            if not parsed.required:
                return None
            raise JobRefused(f"{label}: `content` must include JSON or a form ({_FORM})")
        content_type, schema, described = media
        form = content_type == _FORM
        encoding = list(self._encoding(described, label)) if form else []
        fields = self._fields(schema, label, optional=not parsed.required)
        if fields is not None:
            for name, (each, required) in fields.items():
                self._add(name, each, None, required=required)
            return BodyBinding(content_type=content_type, form=form, fields=list(fields), encoding=encoding)
        argument = "body" if "body" not in self._properties else distinct("request_body", set(self._properties))
        self._add(argument, schema, parsed.description, required=parsed.required)
        return BodyBinding(content_type=content_type, form=form, argument=argument, encoding=encoding)

    def _encoding(self, media: JsonObject, label: str) -> Iterator[StyledValue]:
        """Yields the form fields whose serialization style isn't the default."""
        listed = media.get("encoding", {})
        if not isinstance(listed, dict):
            raise JobRefused(f"{label}: `encoding` isn't an object")
        for name, raw in listed.items():
            location = f"{label}: encoding.{name}"
            raw = self.operation.document.resolved(raw, location)
            parsed = self.operation.document.parsed("Encoding", {**raw, "headers": None}, location)
            if parsed.style is None and parsed.explode is None and is_json(parsed.contentType or ""):
                yield StyledValue(name=str(name), style="json", explode=False)
                continue
            style = parsed.style or "form"
            if style not in _STYLES["query"]:
                raise JobRefused(f"{location}: style {style!r} isn't supported in a form")
            explode = parsed.explode if parsed.explode is not None else style == "form"
            if (style, explode) != ("form", True):
                yield StyledValue(name=str(name), style=style, explode=explode)

    def _add(self, argument: str, schema: Any, description: str | None, *, required: bool) -> None:
        converted, references, _ = self.schemas.convert(schema, f"{self.operation.label}: {argument}")
        if description and isinstance(converted, dict):
            converted = {**converted, "description": description[:LONGEST_DESCRIPTION]}
        self._properties[argument] = converted
        self._references |= references
        if required:
            self._required.append(argument)

    def _declared(self) -> Iterator[tuple[Any, JsonObject]]:
        """Yields each parameter, parsed and raw. The operation's parameters override the path's."""
        found: dict[tuple[str, str], tuple[Any, JsonObject]] = {}
        document = self.operation.document
        for holder in (self.operation.item, self.operation.raw):
            listed = holder.get("parameters", [])
            if not isinstance(listed, list):
                raise JobRefused(f"{self.operation.label}: `parameters` isn't a list")
            for number, each in enumerate(listed):
                location = f"{self.operation.label}: parameters.{number}"
                raw = document.resolved(each, location)
                apart = ("schema", "content", "example", "examples")
                parsed = document.parsed("Parameter", {k: v for k, v in raw.items() if k not in apart}, location)
                found[parsed.param_in.value, parsed.name] = parsed, raw
        yield from found.values()

    def _parameter(self, parsed: Any, raw: JsonObject) -> ParameterBinding | None:
        location: Any = parsed.param_in.value
        if not self._is_argument(parsed, location):
            return None
        label = f"{self.operation.label}: parameter {parsed.name!r}"
        style, schema = parsed.style or ("form" if location == "query" else "simple"), raw.get("schema", {})
        if raw.get("content"):
            media = _media_type(raw["content"])
            if media is None or media[0] == _FORM:
                raise JobRefused(f"{label}: `content` isn't JSON")
            style, schema = "json", media[1]
        elif style not in _STYLES[location]:
            raise JobRefused(f"{label}: style {style!r} isn't supported in {location}")
        explode = parsed.explode if parsed.explode is not None else style == "form"
        plain = _NOT_IN_NAMES.sub("_", parsed.name).strip("_")[:_LONGEST_NAME] or location
        taken = set(self._properties)
        argument = distinct(plain if plain not in taken else f"{location}_{plain}", taken)
        self._add(argument, schema, parsed.description, required=parsed.required or location == "path")
        return ParameterBinding(argument=argument, name=parsed.name, place=location, style=style, explode=explode)

    def _is_argument(self, parsed: Any, location: str) -> bool:
        if location == "path":
            return parsed.name in _PLACEHOLDER.findall(self.operation.path)
        if location == "cookie" and parsed.required and "cookie" not in self.headers:
            raise JobRefused(
                f"{self.operation.label}: tools can't set the cookie {parsed.name!r};"
                " add a `Cookie` header to the toolset"
            )
        return location == "query" or (location == "header" and parsed.name.lower() not in _NO_ARGUMENTS | self.headers)

    def _fields(self, schema: Any, label: str, *, optional: bool) -> dict[str, tuple[Any, bool]] | None:
        """Returns each field's schema and whether it's required, or None if the body must be a single argument."""
        plain = self.operation.document.resolved(schema, label) if isinstance(schema, dict) else {}
        properties, required = plain.get("properties"), plain.get("required") or []
        if plain.get("type", "object") != "object" or not isinstance(properties, dict) or not properties:
            return None
        if not isinstance(required, list) or not set(map(str, required)) <= set(properties) or (optional and required):
            return None
        if any(key in plain for key in _COMPOSED) or isinstance(plain.get("additionalProperties"), dict):
            return None
        visible = {name: each for name, each in properties.items() if not is_read_only(each)}
        if any(not _NAME.fullmatch(str(name)) or name in self._properties for name in visible):
            return None
        return {name: (each, name in required) for name, each in visible.items()} or None


def _media_type(content: Any) -> tuple[str, Any, JsonObject] | None:
    """Returns the content type to send, its schema and the media type object. JSON is preferred to a form.

    Returns None if the operation accepts neither.
    """
    form = None
    for name, media in content.items() if isinstance(content, dict) else ():
        essence = str(name).partition(";")[0].strip().lower()
        described = media if isinstance(media, dict) else {}
        schema = described.get("schema", {})
        if essence in ("*/*", "application/*") or is_json(essence):
            return ("application/json" if "*" in essence else essence), schema, described
        if essence == _FORM and form is None:
            form = essence, schema, described
    return form

"""Builds an operation's request from the binding and a call's arguments."""

import json
from collections.abc import Iterator
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from libs.contracts.resources.toolsets import SECRET_REFERENCE
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolFailed

ParameterLocation = Literal["path", "query", "header"]
Style = Literal["simple", "form", "spaceDelimited", "pipeDelimited", "deepObject", "json"]


class StyledValue(BaseModel):
    """A named value with its serialization style. The style `json` means JSON text."""

    name: str
    style: Style
    explode: bool


class ParameterBinding(StyledValue):
    argument: str
    place: ParameterLocation


class BodyBinding(BaseModel):
    """Maps arguments to the body, which is either a single argument or an object with the arguments in `fields`.

    `encoding` contains the form fields whose style isn't an exploded `form`, OpenAPI's default.
    """

    content_type: str
    form: bool = False
    argument: str | None = None
    fields: list[str] = []
    encoding: list[StyledValue] = []


class OperationBinding(BaseModel):
    """The mapping from arguments to an operation's request. `url` contains path placeholders, such as `{id}`."""

    method: str
    url: str
    parameters: list[ParameterBinding] = []
    body: BodyBinding | None = None


_DELIMITERS: Final = {"form": ",", "simple": ",", "spaceDelimited": " ", "pipeDelimited": "|"}
Pairs = list[tuple[str, str]]


def render(binding: OperationBinding, arguments: JsonObject) -> tuple[str, dict[str, str], bytes | None]:
    """Returns the request's URL, headers and body.

    Raises ToolFailed if an argument isn't allowed in the place where it's sent, such as a header.
    """
    url, query, headers = binding.url, Pairs(), dict[str, str]()
    for parameter in binding.parameters:
        if parameter.argument not in arguments:
            continue
        value = arguments[parameter.argument]
        if parameter.place == "path":
            url = url.replace(f"{{{parameter.name}}}", _segment(parameter, value))
        elif parameter.place == "query":
            query.extend(_pairs(parameter, value))
        else:
            headers[parameter.name] = _header(parameter, value)
    if query:
        url += ("&" if "?" in url else "?") + urlencode(query, quote_via=quote, errors="replace")
    body = _body(binding.body, arguments) if binding.body is not None else None
    if binding.body is not None and body is not None:
        headers["Content-Type"] = binding.body.content_type
    return url, headers, body


def _segment(parameter: ParameterBinding, value: Any) -> str:
    text = _joined(parameter, value, lambda part: quote(part, safe="", errors="replace"))
    # These segments would change the request's path.
    if text in ("", ".", ".."):
        raise ToolFailed(f"the argument {parameter.argument!r} is {text!r}, which isn't allowed in a URL's path")
    return text


def _header(parameter: ParameterBinding, value: Any) -> str:
    text = _joined(parameter, value, str)
    if not (text.isascii() and (text.isprintable() or not text)):
        raise ToolFailed(f"the argument {parameter.argument!r} is sent in a header, so it must be printable ASCII")
    # The toolset may reference secrets, but a model may not.
    if SECRET_REFERENCE.search(text):
        raise ToolFailed(f"the argument {parameter.argument!r} must not reference a secret")
    return text


def _pairs(parameter: StyledValue, value: Any) -> Iterator[tuple[str, str]]:
    if parameter.style == "deepObject" and isinstance(value, dict | list):
        yield from _deep_pairs(parameter.name, value)
    elif parameter.explode and parameter.style == "form" and isinstance(value, dict):
        yield from ((str(name), text) for name, each in value.items() for text in _texts(each))
    elif parameter.explode and parameter.style != "json" and isinstance(value, list):
        yield from ((parameter.name, text) for text in _texts(value))
    else:
        yield parameter.name, _joined(parameter, value, str)


def _deep_pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yields the names (such as `a[b][c]`) and texts in a nested value. OpenAPI itself only defines one level."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _deep_pairs(f"{name}[{key}]", each)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _deep_pairs(f"{name}[{number}]", each)
    else:
        yield name, _text(value)


def _joined(parameter: StyledValue, value: Any, written: Any) -> str:
    if parameter.style == "json":
        return str(written(json.dumps(value, ensure_ascii=False)))
    delimiter = _DELIMITERS.get(parameter.style, ",")
    if isinstance(value, dict):
        between = "=" if parameter.explode else delimiter
        return delimiter.join(f"{written(str(name))}{between}{written(_text(each))}" for name, each in value.items())
    if isinstance(value, list):
        return delimiter.join(written(_text(each)) for each in value)
    return str(written(_text(value)))


def _texts(value: Any) -> list[str]:
    return [_text(each) for each in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _body(binding: BodyBinding, arguments: JsonObject) -> bytes | None:
    if binding.argument is not None:
        if binding.argument not in arguments:
            return None
        value = arguments[binding.argument]
    else:
        value = {name: arguments[name] for name in binding.fields if name in arguments}
    if not binding.form:
        return json.dumps(value, ensure_ascii=False).encode(errors="replace")
    if not isinstance(value, dict):
        raise ToolFailed(f"the argument {binding.argument!r} is sent as a form, so it must be an object")
    styled = {field.name: field for field in binding.encoding}
    pairs = Pairs()
    for name, each in value.items():
        if name in styled:
            pairs += _pairs(styled[name], each)
        else:
            pairs += ((str(name), text) for text in _texts(each))
    return urlencode(pairs, errors="replace").encode()

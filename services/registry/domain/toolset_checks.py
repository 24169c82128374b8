"""Checks a toolset's body beyond its types: placeholders, addresses, headers, schemas."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from libs.contracts.api.toolsets import (
    MAX_DOCUMENT_BYTES,
    SECRET_REFERENCE,
    HttpTool,
    HttpToolsetBody,
    LeftOutTool,
    OpenApiToolsetBody,
    ToolsetBody,
)
from libs.contracts.errors import ErrorDetail
from services.registry.domain.hints import Loc, near
from services.registry.domain.json_schemas import object_schema_errors
from services.registry.domain.toolset import secret_names

_MOST_FINDINGS: Final = 100
# Doubled braces stand for themselves, as the runtime fills templates in.
_PLACEHOLDER: Final = re.compile(r"\{\{[A-Za-z_][A-Za-z0-9_-]*\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_ANY_SECRET: Final = re.compile(r"\$\{secret:[^}]*\}?")
_OF_THE_CLIENT: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "idempotency-key"}
)


def toolset_errors(body: ToolsetBody, secrets: Collection[str]) -> list[ErrorDetail]:
    """Everything that is wrong with a well-formed body; ``secrets``: the names of those that the company has."""
    return list(islice(_errors(body, secrets), _MOST_FINDINGS))


def left_out_warnings(body: ToolsetBody, left_out: Sequence[LeftOutTool]) -> list[ErrorDetail]:
    """Warnings about tools that the target offers and that cannot be used."""
    choice = "operations" if isinstance(body, OpenApiToolsetBody) else "allowed_tools"
    return [
        ErrorDetail(
            loc=["tools", tool.name],
            type="tool_left_out",
            message=f"The tool {tool.name!r} is left out: {tool.reason}",
            hint=f"have its server corrected, or name the tools that you need in {choice}",
        )
        for tool in left_out[:_MOST_FINDINGS]
    ]


def _errors(body: ToolsetBody, secrets: Collection[str]) -> Iterator[ErrorDetail]:
    if isinstance(body, HttpToolsetBody):
        yield from _http_errors(body)
    else:
        yield from _header_errors(body.headers, ("headers",))
    if isinstance(body, OpenApiToolsetBody):
        yield from _document_errors(body)
    for name in ("url", "document_url", "base_url"):
        if (url := getattr(body, name, None)) is not None:
            yield from _url_errors(url, (name,))
    for name in secret_names(body.model_dump(include={"headers", "tools"})):
        if name not in secrets:
            yield ErrorDetail(
                loc=_place_of(body, name),
                type="secret_unknown",
                message=f"There is no secret {name!r}",
                hint=near(name, secrets) or f"store it first: PUT /secrets/{name}/",
            )


def _place_of(body: ToolsetBody, secret: str) -> list[str | int]:
    """The first header that refers to the secret."""
    places: list[tuple[list[str | int], Mapping[str, str]]]
    if isinstance(body, HttpToolsetBody):
        places = [(["tools", index, "headers"], tool.headers) for index, tool in enumerate(body.tools)]
    else:
        places = [(["headers"], body.headers)]
    for place, headers in places:
        for header, value in headers.items():
            if secret in SECRET_REFERENCE.findall(value):
                return [*place, header]
    return []


def _header_errors(headers: Mapping[str, str], loc: Loc) -> Iterator[ErrorDetail]:
    seen: set[str] = set()
    for name, value in headers.items():
        place = [*loc, name]
        if name.lower() in _OF_THE_CLIENT:
            yield ErrorDetail(
                loc=place, type="header_reserved", message="This header is set by the service", hint="remove it"
            )
        if name.lower() in seen:
            yield ErrorDetail(
                loc=place, type="header_repeated", message="This header is there already", hint="name it once"
            )
        seen.add(name.lower())
        if _ANY_SECRET.search(SECRET_REFERENCE.sub("", value)):
            yield ErrorDetail(
                loc=place,
                type="secret_reference",
                message="A reference to a secret has the form ${secret:NAME}",
                hint="a name has letters, digits, _ and -, and begins with a letter",
            )


def _url_errors(url: str, loc: Loc) -> Iterator[ErrorDetail]:
    try:
        parts = urlsplit(url)
        bad_port = parts.port is not None and not 1 <= parts.port <= 65535
    except ValueError:
        parts, bad_port = None, True
    if parts is None or bad_port or not parts.hostname:
        yield ErrorDetail(loc=list(loc), type="url_invalid", message="This is no http or https URL", hint=None)
        return
    if "@" in parts.netloc:
        yield ErrorDetail(
            loc=list(loc),
            type="url_credentials",
            message="A URL may not have credentials: it is shown to everybody who reads the toolset",
            hint="store them as a secret and refer to it in a header: ${secret:NAME}",
        )
    if "{" in parts.netloc or "}" in parts.netloc:
        yield ErrorDetail(
            loc=list(loc),
            type="placeholder_in_host",
            message="The host of a URL may not be a placeholder: a model would choose where requests go",
            hint="make a toolset for each host",
        )
    if _ANY_SECRET.search(url):
        yield _secret_outside_headers(loc)


def _http_errors(body: HttpToolsetBody) -> Iterator[ErrorDetail]:
    names: set[str] = set()
    for index, tool in enumerate(body.tools):
        loc: Loc = ("tools", index)
        if tool.name in names:
            yield ErrorDetail(
                loc=[*loc, "name"],
                type="tool_repeated",
                message=f"There is a tool {tool.name!r} before this one",
                hint="give it another name",
            )
        names.add(tool.name)
        yield from _header_errors(tool.headers, (*loc, "headers"))
        yield from _url_errors(tool.url, (*loc, "url"))
        yield from object_schema_errors(tool.parameters, (*loc, "parameters"))
        yield from _template_errors(tool, loc)
    for name in body.tool_settings:
        if name not in names:
            yield ErrorDetail(
                loc=["tool_settings", name],
                type="tool_unknown",
                message=f"The toolset has no tool {name!r}",
                hint=near(name, names),
            )


def _template_errors(tool: HttpTool, loc: Loc) -> Iterator[ErrorDetail]:
    properties = tool.parameters.get("properties", {})
    known = properties if isinstance(properties, dict) else {}
    for part, value in (("url", tool.url), ("query", tool.query), ("body", tool.body)):
        for place, text in _texts(value, (*loc, part)):
            if part != "url" and _ANY_SECRET.search(text):
                yield _secret_outside_headers(place)
            for name in _PLACEHOLDER.findall(_ANY_SECRET.sub("", text)):
                if name and name not in known:
                    yield ErrorDetail(
                        loc=list(place),
                        type="placeholder_unknown",
                        message=f"The tool has no argument {name!r}",
                        hint=near(name, known) or f"add it to the properties of parameters: {name}",
                    )
    if tool.method == "GET" and tool.body is not None:
        yield ErrorDetail(
            loc=[*loc, "body"], type="body_of_get", message="A GET has no body", hint="use query, or method POST"
        )


def _document_errors(body: OpenApiToolsetBody) -> Iterator[ErrorDetail]:
    if (body.document is None) == (body.document_url is None):
        yield ErrorDetail(
            loc=["document"],
            type="document_ambiguous",
            message="Give exactly one of document and document_url",
            hint="document is the OpenAPI document itself, document_url its address",
        )
    if body.document is None:
        return
    size = len(body.document.encode()) if isinstance(body.document, str) else len(orjson.dumps(body.document))
    if size > MAX_DOCUMENT_BYTES:
        yield ErrorDetail(
            loc=["document"],
            type="document_too_large",
            message=f"The document has {size} bytes, more than {MAX_DOCUMENT_BYTES}",
            hint="leave out the operations that are not needed",
        )


def _secret_outside_headers(loc: Loc) -> ErrorDetail:
    return ErrorDetail(
        loc=list(loc),
        type="secret_outside_headers",
        message="Secrets may stand in headers only: URLs and bodies are logged and shown on the way",
        hint="send it in a header",
    )


def _texts(value: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, (*loc, str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*loc, index))

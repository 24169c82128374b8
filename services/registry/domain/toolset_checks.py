"""Checks toolsets' placeholders, URLs, headers and schemas, and their targets' tools."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from libs.contracts.errors import ErrorDetail
from libs.contracts.resources.toolsets import (
    MAX_DOCUMENT_BYTES,
    MAX_TOOLS,
    SECRET_REFERENCE,
    ConnectedTool,
    HttpTool,
    HttpToolsetBody,
    LeftOutTool,
    OpenApiToolsetBody,
    ToolsetBody,
)
from services.registry.domain.findings import found
from services.registry.domain.hints import Loc, near
from services.registry.domain.json_schemas import object_schema_errors
from services.registry.domain.toolset import secret_names

_MOST_FINDINGS: Final = 100
# Doubled braces stand for literal braces, as in the runtime's templates.
_PLACEHOLDER: Final = re.compile(r"\{\{[A-Za-z_][A-Za-z0-9_-]*\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_ANY_SECRET: Final = re.compile(r"\$\{secret:[^}]*\}?")
_OF_THE_CLIENT: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "idempotency-key"}
)


def toolset_errors(body: ToolsetBody, secrets: Collection[str]) -> list[ErrorDetail]:
    """Returns up to 100 errors in a toolset. ``secrets`` contains the names of the company's secrets."""
    return list(islice(_errors(body, secrets), _MOST_FINDINGS))


def left_out_warnings(body: ToolsetBody, left_out: Sequence[LeftOutTool]) -> list[ErrorDetail]:
    """Returns warnings about the target's tools that can't be used."""
    choice = "operations" if isinstance(body, OpenApiToolsetBody) else "allowed_tools"
    hint = f"fix the tool on its server, or list only the tools you need in {choice}"
    return [
        found(("tools", tool.name), "tool_left_out", f"The tool {tool.name!r} was skipped: {tool.reason}", hint)
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
            hint = near(name, secrets) or f"store it first: PUT /secrets/{name}/"
            yield found(_location_of(body, name), "secret_unknown", f"Unknown secret {name!r}", hint)


def _location_of(body: ToolsetBody, secret: str) -> Loc:
    """Returns the location of the first header that refers to the secret."""
    candidates: list[tuple[Loc, Mapping[str, str]]]
    if isinstance(body, HttpToolsetBody):
        candidates = [(("tools", index, "headers"), tool.headers) for index, tool in enumerate(body.tools)]
    else:
        candidates = [(("headers",), body.headers)]
    return next(
        (
            (*location, header)
            for location, headers in candidates
            for header, value in headers.items()
            if secret in SECRET_REFERENCE.findall(value)
        ),
        (),
    )


def _header_errors(headers: Mapping[str, str], loc: Loc) -> Iterator[ErrorDetail]:
    seen: set[str] = set()
    for name, value in headers.items():
        location: Loc = (*loc, name)
        if name.lower() in _OF_THE_CLIENT:
            yield found(location, "header_reserved", "The service sets this header itself", "remove it")
        if name.lower() in seen:
            yield found(location, "header_repeated", "This header is repeated", "list it once")
        seen.add(name.lower())
        if _ANY_SECRET.search(SECRET_REFERENCE.sub("", value)):
            hint = "use only letters, digits, _ and - in the name, and start with a letter"
            yield found(location, "secret_reference", "A reference to a secret must have the form ${secret:NAME}", hint)


def _url_errors(url: str, loc: Loc) -> Iterator[ErrorDetail]:
    try:
        parts = urlsplit(url)
        bad_port = parts.port is not None and not 1 <= parts.port <= 65535
    except ValueError:
        parts, bad_port = None, True
    if parts is None or bad_port or not parts.hostname:
        yield found(loc, "url_invalid", "The address isn't an http or https URL")
        return
    if "@" in parts.netloc:
        message = "A URL can't contain credentials, because everyone who can see the toolset can read it"
        hint = "store them as a secret and reference it in a header: ${secret:NAME}"
        yield found(loc, "url_credentials", message, hint)
    if "{" in parts.netloc or "}" in parts.netloc:
        message = "A URL's host can't be a placeholder, because the model would choose where requests go"
        yield found(loc, "placeholder_in_host", message, "create a toolset for each host")
    if _ANY_SECRET.search(url):
        yield _secret_outside_headers(loc)


def _http_errors(body: HttpToolsetBody) -> Iterator[ErrorDetail]:
    names: set[str] = set()
    for index, tool in enumerate(body.tools):
        loc: Loc = ("tools", index)
        if tool.name in names:
            message = f"The tool name {tool.name!r} is already used"
            yield found((*loc, "name"), "tool_repeated", message, "rename it")
        names.add(tool.name)
        yield from _header_errors(tool.headers, (*loc, "headers"))
        yield from _url_errors(tool.url, (*loc, "url"))
        yield from object_schema_errors(tool.parameters, (*loc, "parameters"))
        yield from _template_errors(tool, loc)
    yield from settings_errors(body, names)


def _template_errors(tool: HttpTool, loc: Loc) -> Iterator[ErrorDetail]:
    properties = tool.parameters.get("properties", {})
    known = properties if isinstance(properties, dict) else {}
    for part, value in (("url", tool.url), ("query", tool.query), ("body", tool.body)):
        for location, text in _texts(value, (*loc, part)):
            if part != "url" and _ANY_SECRET.search(text):
                yield _secret_outside_headers(location)
            for name in _PLACEHOLDER.findall(_ANY_SECRET.sub("", text)):
                if name and name not in known:
                    hint = near(name, known) or f"add {name} to the properties in parameters, or remove the placeholder"
                    yield found(location, "placeholder_unknown", f"The tool doesn't have an argument {name!r}", hint)
    if tool.method == "GET" and tool.body is not None:
        yield found((*loc, "body"), "body_of_get", "A GET request can't have a body", "use query, or the method POST")


def _document_errors(body: OpenApiToolsetBody) -> Iterator[ErrorDetail]:
    if (body.document is None) == (body.document_url is None):
        hint = "document is the OpenAPI document itself; document_url is its address"
        yield found(("document",), "document_ambiguous", "Specify either document or document_url", hint)
    if body.document is None:
        return
    size = len(body.document.encode()) if isinstance(body.document, str) else len(orjson.dumps(body.document))
    if size > MAX_DOCUMENT_BYTES:
        message = f"The document is too large: {size} bytes. The maximum is {MAX_DOCUMENT_BYTES}"
        yield found(("document",), "document_too_large", message, "remove operations that you don't need")


def _secret_outside_headers(loc: Loc) -> ErrorDetail:
    message = "Secrets are only allowed in headers, because URLs and bodies may be logged"
    return found(loc, "secret_outside_headers", message, "send the secret in a header")


def _texts(value: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, (*loc, str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*loc, index))


def offer_errors(tools: Sequence[ConnectedTool]) -> Iterator[ErrorDetail]:
    """Yields the first error in a target's tools, if any."""
    names: set[str] = set()
    if not tools:
        yield _unusable("The target doesn't offer any tools", "check allowed_tools or operations, if given")
    elif len(tools) > MAX_TOOLS:
        message = f"The target offers {len(tools)} tools. The maximum is {MAX_TOOLS}"
        yield _unusable(message, "select some with allowed_tools or operations")
    else:
        for tool in tools:
            if not 1 <= len(tool.name) <= 150 or not tool.name.isprintable() or " " in tool.name:
                yield _unusable(f"The target offers a tool with an invalid name: {tool.name[:200]!r}")
                return
            if tool.name in names:
                yield _unusable(f"The target offers two tools named {tool.name!r}")
                return
            names.add(tool.name)


def _unusable(message: str, hint: str | None = None) -> ErrorDetail:
    return found(("tools",), "tools_unusable", message, hint)


def settings_errors(body: ToolsetBody, names: Collection[str]) -> Iterator[ErrorDetail]:
    """Yields an error for each tool that has settings but doesn't exist."""
    for name in body.tool_settings:
        if name not in names:
            yield found(
                ("tool_settings", name), "tool_unknown", f"The toolset doesn't have a tool {name!r}", near(name, names)
            )

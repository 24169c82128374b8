"""docs/reference/routes.md, from the OpenAPI document."""

import asyncio
import json
import re
from typing import Any, Final

from tests.contract.public_api.documents import served
from tools.reference.markdown import MARK, names

_HEAD: Final = """# Routes

Paths follow the [base URL](conventions.md). A `?` marks optional fields; examples show one of several where a route has
more. [Errors](errors.md) are the same everywhere.
"""
_BASE: Final = "/api/v1"
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def page() -> str:
    document = json.loads(asyncio.run(served())["openapi.json"])
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if operation := methods.get(method):
                block = _operation(f"{method.upper()} {path.removeprefix(_BASE)}", operation, document)
                by_tag.setdefault(operation["tags"][0], []).append(block)
    return "\n".join([MARK, _HEAD, *(f"## {tag}\n\n" + "\n".join(blocks) for tag, blocks in by_tag.items())])


def _operation(heading: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    scopes = dict.fromkeys(re.findall(r"`([a-z]+:[a-z]+)`", operation.get("description", "")))
    lines = [f"### {heading}", "", f"{operation['summary']}.", ""]
    if scopes:
        lines.append(f"* Scopes: {names(list(scopes))}")
    parameters = [_resolved(each, document) for each in operation.get("parameters", ())]
    if query := [each["name"] for each in parameters if each["in"] == "query"]:
        lines.append(f"* Query: {names(query)}")
    contents = _resolved(operation.get("requestBody", {}), document).get("content", {})
    media_type, content = next(iter(contents.items()), ("", dict[str, Any]()))
    if media_type == "application/json":
        lines.append(f"* Body: {_fields(content['schema'], document)}")
    elif media_type:
        lines.append(f"* Body: `{media_type}` with {_fields(content['schema'], document)}")
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            answered = _resolved(answer, document).get("content", {}).get("application/json", {}).get("schema")
            fields = _fields(answered, document) if answered else ""
            lines.append(f"* {status}: {fields}" if fields else f"* {status}")
    if media_type == "application/json":
        example = next(iter(content["examples"].values()))["value"]
        lines += ["", "```json", json.dumps(example, ensure_ascii=False), "```"]
    return "\n".join(lines) + "\n"


def _fields(schema: dict[str, Any], document: dict[str, Any]) -> str:
    schema = _resolved(schema, document)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            options = (_fields(option, document) for option in schema[choice])
            return "; or ".join(dict.fromkeys(option for option in options if option))
    if schema.get("type") == "array":
        return f"array of {_fields(schema['items'], document)}"
    required = schema.get("required", ())
    return names([name if name in required else f"{name}?" for name in schema.get("properties", ())])


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema

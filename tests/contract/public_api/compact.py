"""An OpenAPI document reduced to the contract: paths, methods, parameters, bodies, statuses, schemas, credentials.

Words and the way of rendering are left out: descriptions, titles, examples, tags, shared parts and their order.
"""

from typing import Any, Final

_WORDS: Final = frozenset({"description", "title", "example", "examples", "summary", "tags"})
_METHODS: Final = frozenset({"delete", "get", "patch", "post", "put"})


def compact(document: dict[str, Any]) -> dict[str, Any]:
    components = document["components"]
    return {
        "operations": {
            f"{method.upper()} {path}": _operation(operation, document)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if method in _METHODS
        },
        "schemas": {name: _schema(schema) for name, schema in components["schemas"].items()},
        "credentials": {name: _schema(scheme) for name, scheme in components["securitySchemes"].items()},
    }


def _operation(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {})
    security = operation.get("security", document.get("security", []))
    return {
        "id": operation["operationId"],
        "credentials": sorted(name for alternative in security for name in alternative),
        "parameters": dict(sorted(_parameter(each, document) for each in operation.get("parameters", []))),
        "body": {"required": body.get("required", False), **_contents(body)} if body else None,
        "responses": {
            status: {"headers": sorted(set(answer.get("headers", {})) - {"X-Correlation-ID"}), **_contents(answer)}
            for status, answer in sorted((s, _resolved(a, document)) for s, a in operation["responses"].items())
        },
    }


def _parameter(parameter: dict[str, Any], document: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    found = _resolved(parameter, document)
    shown = {"required": found.get("required", False), "schema": _schema(found["schema"])}
    return f"{found['in']} {found['name']}", shown


def _contents(part: dict[str, Any]) -> dict[str, Any]:
    return {media_type: _schema(each["schema"]) for media_type, each in sorted(part.get("content", {}).items())}


def _resolved(part: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    found: Any = document
    for name in part["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return dict(found)


def _schema(schema: Any) -> Any:
    """Without words. The names of properties are no words, whatever they are."""
    if isinstance(schema, list):
        return [_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if set(schema) == {"$ref"}:
        return schema["$ref"].rpartition("/")[2]
    reduced = {}
    for key, value in sorted(schema.items()):
        if key == "properties":
            reduced[key] = {name: _schema(each) for name, each in sorted(value.items())}
        elif key == "required":
            reduced[key] = sorted(value)
        # FastAPI leaves a default of null out.
        elif key not in _WORDS and not (key == "default" and value is None):
            reduced[key] = value if key in ("enum", "const", "default") else _schema(value)
    return reduced

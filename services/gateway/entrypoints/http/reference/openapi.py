"""The OpenAPI document, made from the operations that are routed."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, get_args

import yaml
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from libs.contracts.errors import ErrorKind
from libs.contracts.identifiers import CORRELATION_ID_PATTERN
from libs.service_defaults.errors import STATUSES
from services.gateway.entrypoints.http.operations import Answer, Body, Credential, Operation
from services.gateway.entrypoints.http.reference import texts
from services.gateway.entrypoints.http.schemas import ErrorBody
from services.gateway.entrypoints.http.validation import DEFAULT_LIMIT, MAX_LIMIT, MAX_OFFSET

_REFS: Final = "#/components/schemas/{model}"
_ALWAYS: Final = (400, 401, 429, 500, 503)
_WITH_BODY: Final = (413, 415, 422)
_KINDS: Final = {status: kind for kind, status in STATUSES.items()}
_YAML_TYPES: Final = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_FORM: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                "required": ["file"],
            }
        }
    },
}


_CREDENTIALS: Final[dict[str, Any]] = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": texts.API_KEY},
    "bearer": {"type": "http", "scheme": "bearer", "description": texts.BEARER},
    "connectionKey": {
        "type": "apiKey",
        "in": "query",
        "name": "connection_key",
        "description": texts.CONNECTION_KEY,
    },
    "agentKey": {"type": "apiKey", "in": "query", "name": "agent_key", "description": texts.AGENT_KEY},
}
_SCHEMES: Final = {Credential.BEARER: ("bearer",), Credential.PUBLIC_KEY: ("connectionKey", "agentKey")}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1 of the whole public API."""
    models = _models(operations)
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=_REFS)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(f"/api/v1{operation.path}", {})[operation.method.lower()] = _operation(operation)
    tags = dict.fromkeys(operation.tag for operation in operations)
    return {
        "openapi": "3.1.0",
        "info": {"title": texts.TITLE, "version": "1.0.0", "description": texts.INTRODUCTION},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag, "description": texts.TAGS.get(tag, "")} for tag in tags],
        "security": [{"apiKey": []}],
        "paths": paths,
        "components": {
            "securitySchemes": _CREDENTIALS,
            "schemas": definitions["$defs"],
            "parameters": _parameters(),
            "responses": {str(status): _error(status) for status in sorted(_KINDS)},
            "headers": {
                "X-Correlation-ID": {"description": texts.CORRELATION_OUT, "schema": {"type": "string"}},
                "Location": {"description": texts.LOCATION, "schema": {"type": "string"}},
                "Retry-After": {"description": texts.RETRY_AFTER, "schema": {"type": "integer"}},
            },
        },
    }


def _models(operations: Sequence[Operation]) -> list[type[BaseModel]]:
    found: dict[type[BaseModel], None] = {ErrorBody: None}
    for operation in operations:
        used: list[Any] = [answer.model for answer in operation.answers.values()]
        if operation.body is not None:
            used.append(operation.body.model or operation.body.schema)
        for model in used:
            if isinstance(model, type) and issubclass(model, BaseModel):
                found[model] = None
            elif isinstance(model, TypeAdapter):
                found.update(dict.fromkeys(_inside(model)))
    return list(found)


def _inside(adapter: TypeAdapter[Any]) -> list[type[BaseModel]]:
    """The models of a list or a union."""
    return [part for part in get_args(adapter._type) if isinstance(part, type) and issubclass(part, BaseModel)]


def _schema(model: Any) -> dict[str, Any]:
    if isinstance(model, TypeAdapter):
        schema = model.json_schema(ref_template=_REFS)
        schema.pop("$defs", None)
        return schema
    return {"$ref": _REFS.format(model=model.__name__)}


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description + _scope_note(operation),
        "tags": [operation.tag],
        "parameters": _used_parameters(operation),
        "responses": {
            **{str(status): _answer(answer) for status, answer in operation.answers.items()},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in _errors(operation)},
        },
    }
    if operation.anonymous:
        described["security"] = []
    if operation.credentials:
        others = [name for kind, names in _SCHEMES.items() if kind in operation.credentials for name in names]
        described["security"] = [{name: []} for name in ("apiKey", *others)]
    if operation.body is not None:
        described["requestBody"] = _body(operation.body)
    if operation.uploads:
        described["requestBody"] = _FORM
    return described


def _scope_note(operation: Operation) -> str:
    if operation.scope is None:
        return ""
    return f"\n\nNeeds the scope `{operation.scope}`.".lstrip("\n" if not operation.description else "")


def _errors(operation: Operation) -> list[int]:
    statuses = {*_ALWAYS, *operation.errors}
    if operation.scope is not None:
        statuses.add(403)
    if operation.body is not None or operation.uploads:
        statuses.update(_WITH_BODY)
    if operation.writes:
        statuses.update((409, 422, 504))
    return sorted(statuses)


def _used_parameters(operation: Operation) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    own: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
    ]
    own += [
        {"name": each.name, "in": "query", "description": each.description, "schema": each.schema}
        for each in operation.query
    ]
    shared = ["CorrelationId"]
    if operation.paged:
        shared += ["Limit", "Offset"]
    if operation.writes:
        shared.append("IdempotencyKey")
    if operation.prefers:
        shared.append("Prefer")
    return own + [{"$ref": f"#/components/parameters/{name}"} for name in shared]


def _body(body: Body) -> dict[str, Any]:
    schema = _schema(body.model or body.schema)
    as_json = {name: {"value": value} for name, value in body.examples.items()}
    as_yaml = {
        name: {"value": yaml.safe_dump(value, sort_keys=False, allow_unicode=True)}
        for name, value in body.examples.items()
    }
    content = {"application/json": {"schema": schema, "examples": as_json}}
    content.update({media_type: {"schema": schema, "examples": as_yaml} for media_type in _YAML_TYPES})
    return {"required": body.required, "content": content}


def _answer(answer: Answer) -> dict[str, Any]:
    headers = ("X-Correlation-ID", *answer.headers)
    described: dict[str, Any] = {
        "description": answer.description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
    }
    if answer.is_file:
        described["content"] = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
    if answer.model is not None:
        described["content"] = {"application/json": {"schema": _schema(answer.model)}}
    if answer.streams:
        events = {"schema": {"type": "string"}, "examples": {"turn": {"value": texts.EVENTS}}}
        described["content"]["text/event-stream"] = events
    return described


def _error(status: int) -> dict[str, Any]:
    kind = _KINDS[status]
    headers = ["X-Correlation-ID"]
    if kind in (ErrorKind.RATE_LIMIT, ErrorKind.UNAVAILABLE):
        headers.append("Retry-After")
    example: dict[str, Any] = {"type": kind.value, "message": texts.ERRORS[kind], "correlation_id": "order-4711"}
    return {
        "description": f"{HTTPStatus(status).phrase}: {texts.ERRORS[kind]}",
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": {"application/json": {"schema": _schema(ErrorBody), "example": {"error": example}}},
    }


def _parameters() -> dict[str, Any]:
    def header(name: str, description: str, **schema: Any) -> dict[str, Any]:
        return {"name": name, "in": "header", "description": description, "schema": {"type": "string", **schema}}

    def number(name: str, description: str, **schema: Any) -> dict[str, Any]:
        return {"name": name, "in": "query", "description": description, "schema": {"type": "integer", **schema}}

    return {
        "CorrelationId": header("X-Correlation-ID", texts.CORRELATION_IN, pattern=CORRELATION_ID_PATTERN),
        "IdempotencyKey": header("Idempotency-Key", texts.IDEMPOTENCY, pattern="^[ -~]{1,200}$"),
        "Prefer": header("Prefer", texts.PREFER, examples=["wait=30", "respond-async"]),
        "Limit": number("limit", "Items in the page.", minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT),
        "Offset": number("offset", "Items to skip.", minimum=0, maximum=MAX_OFFSET, default=0),
    }

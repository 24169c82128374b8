"""The OpenAPI document: FastAPI's, with what the dependencies of each route say of themselves."""

from collections.abc import Iterable, Iterator
from copy import copy
from http import HTTPStatus
from typing import Any, Final, get_args

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from libs.contracts.errors import ErrorKind
from libs.service_defaults.errors import RETRIED, STATUSES
from services.gateway.entrypoints.http.reference import texts
from services.gateway.entrypoints.http.reference.described import ALWAYS, Described, Schema
from services.gateway.entrypoints.http.reference.parameters import SHARED, reference_to
from services.gateway.entrypoints.http.routing import described_dependencies
from services.gateway.entrypoints.http.schemas import ErrorBody

_REFS: Final = "#/components/schemas/{model}"
_KINDS: Final = {status: kind for kind, status in STATUSES.items()}
_USUAL: Final = ("apiKey", "bearer")
_SCHEMES: Final[dict[str, Any]] = {
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


def document(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1 of the whole public API."""
    routes = [_without_head(route) for route in app.routes if isinstance(route, APIRoute) and route.include_in_schema]
    described = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=routes,
        tags=[{"name": name, "description": text} for name, text in texts.TAGS.items()],
        servers=[{"url": "/"}],
        separate_input_output_schemas=False,
    )
    described["security"] = [{name: []} for name in _USUAL]
    models: dict[type[BaseModel], None] = {ErrorBody: None}
    for route in routes:
        for method in route.methods or ():
            operation = described["paths"][route.path_format][method.lower()]
            for dependency in _complete(operation, described_dependencies(route.dependant)):
                models.update(dict.fromkeys(_models_of(dependency.body_schema)))
    described["components"] = _components(described["components"], list(models))
    return described


def _without_head(route: APIRoute) -> APIRoute:
    """The route with the methods that are documented: HEAD goes without saying where there is GET."""
    documented = copy(route)
    documented.methods = (route.methods or set()) - {"HEAD"}
    return documented


def _complete(operation: dict[str, Any], dependencies: Iterable[tuple[Described, list[str]]]) -> list[Described]:
    """Add to an operation what its dependencies take and answer. Returns them."""
    completed = []
    statuses = {*ALWAYS, *(int(status) for status, answer in operation["responses"].items() if "$ref" in answer)}
    parameters = operation.setdefault("parameters", [])
    for dependency, scopes in dependencies:
        completed.append(dependency)
        statuses.update(dependency.errors)
        parameters += [_reference(each) for each in dependency.parameters]
        for scope in scopes:
            statuses.add(403)
            note = f"Needs the scope `{scope}`."
            operation["description"] = "\n\n".join(filter(None, (operation.get("description"), note)))
        if dependency.security not in (None, _USUAL):
            operation["security"] = [{name: []} for name in dependency.security or ()]
        if dependency.request_body is not None:
            operation["requestBody"] = _request_body(dependency)
    parameters.append(reference_to("CorrelationId"))
    operation["responses"] = {**_answers(operation["responses"]), **_refusals(statuses)}
    return completed


def _answers(responses: dict[str, Any]) -> dict[str, Any]:
    """Selects the answers that are no errors, without the 422 that FastAPI adds in a shape of its own."""
    answers = {status: answer for status, answer in responses.items() if int(status) < 400}
    for answer in answers.values():
        shared = {"X-Correlation-ID": {"$ref": "#/components/headers/X-Correlation-ID"}}
        answer["headers"] = {**shared, **answer.get("headers", {})}
    return answers


def _refusals(statuses: Iterable[int]) -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _reference(parameter: dict[str, Any]) -> dict[str, Any]:
    name = next((name for name, shared in SHARED.items() if shared is parameter), None)
    return parameter if name is None else reference_to(name)


def _request_body(dependency: Described) -> dict[str, Any]:
    body = dependency.request_body or {}
    if dependency.body_schema is None:
        return body
    schema = _schema(dependency.body_schema)
    content = {media_type: {"schema": schema, **each} for media_type, each in body["content"].items()}
    return {**body, "content": content}


def _schema(model: Schema) -> dict[str, Any]:
    if isinstance(model, TypeAdapter):
        schema = model.json_schema(ref_template=_REFS)
        schema.pop("$defs", None)
        return schema
    return {"$ref": _REFS.format(model=model.__name__)}


def _models_of(schema: Schema | None) -> Iterator[type[BaseModel]]:
    """The model, or those of a union."""
    parts = get_args(schema._type) if isinstance(schema, TypeAdapter) else (schema,)
    yield from (part for part in parts if isinstance(part, type) and issubclass(part, BaseModel))


def _components(made: dict[str, Any], models: list[type[BaseModel]]) -> dict[str, Any]:
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=_REFS)
    schemas = {**made["schemas"], **definitions["$defs"]}
    unused = ("HTTPValidationError", "ValidationError")
    return {
        "securitySchemes": _SCHEMES,
        "schemas": {name: schemas[name] for name in sorted(schemas) if name not in unused},
        "parameters": SHARED,
        "responses": {str(status): _error(status) for status in sorted(_KINDS)},
        "headers": {
            "X-Correlation-ID": {"description": texts.CORRELATION_OUT, "schema": {"type": "string"}},
            "Location": {"description": texts.LOCATION, "schema": {"type": "string"}},
            "Retry-After": {"description": texts.RETRY_AFTER, "schema": {"type": "integer"}},
            "WWW-Authenticate": {"description": texts.CHALLENGES, "schema": {"type": "string"}},
        },
    }


def _error(status: int) -> dict[str, Any]:
    kind = _KINDS[status]
    headers = ["X-Correlation-ID"]
    if kind in RETRIED:
        headers.append("Retry-After")
    if kind is ErrorKind.AUTHENTICATION:
        headers.append("WWW-Authenticate")
    example: dict[str, Any] = {"type": kind.value, "message": texts.ERRORS[kind], "correlation_id": "order-4711"}
    return {
        "description": f"{HTTPStatus(status).phrase}: {texts.ERRORS[kind]}",
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": {"application/json": {"schema": _schema(ErrorBody), "example": {"error": example}}},
    }

"""Builds the OpenAPI document. Adds bodies, errors and shared parameters to FastAPI's document."""

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from http import HTTPStatus
from typing import Any, Final, get_type_hints

import orjson
from fastapi.openapi.utils import get_openapi
from fastapi.params import Security
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from libs.contracts.error_catalogue import ERRORS
from libs.contracts.errors import ErrorBody, ErrorKind
from libs.contracts.identifiers import CORRELATION_ID_PATTERN
from libs.contracts.messages import public_name
from libs.contracts.replies import ExecuteReply
from libs.service_defaults.errors import RETRIED, STATUSES
from services.gateway.domain.turn_progress import TURN_EVENTS
from services.gateway.entrypoints.door.callers import SCHEMES
from services.gateway.entrypoints.door.queries import QueryModel
from services.gateway.entrypoints.door.routes import ALWAYS, RequestBody, Schema, bodies_of, stream_event
from services.gateway.entrypoints.rest.reference import texts

_VERSION: Final = "1.0.0"
_REFS: Final = "#/components/schemas/{model}"
_KINDS: Final = {status: kind for kind, status in STATUSES.items()}
_WITH_BODY: Final = (413, 415, 422)
_WITH_KEY: Final = (409, 422, 504)
_IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_SHARED: Final = {
    "X-Correlation-ID": "CorrelationId",
    "limit": "Limit",
    "offset": "Offset",
    "after": "After",
    _IDEMPOTENCY_KEY: "IdempotencyKey",
    "Last-Event-ID": "LastEventId",
    "Prefer": "Prefer",
}
"""The names of shared parameters in the document, by parameter name."""
_CORRELATION_ID: Final = {
    "name": "X-Correlation-ID",
    "in": "header",
    "description": texts.CORRELATION_IN,
    "schema": {"type": "string", "pattern": CORRELATION_ID_PATTERN},
}
_Operation = dict[str, Any]


def document(served: Iterable[BaseRoute]) -> dict[str, Any]:
    """Builds the OpenAPI 3.1 document of these routes."""
    routes = [_without_head(route) for route in served if isinstance(route, APIRoute) and route.include_in_schema]
    described = get_openapi(
        title=texts.TITLE,
        version=_VERSION,
        description=texts.INTRODUCTION,
        routes=routes,
        tags=[{"name": name, "description": text} for name, text in texts.TAGS.items()],
        servers=[{"url": "/"}],
        separate_input_output_schemas=False,
    )
    models: dict[type[BaseModel], None] = {ErrorBody: None}
    of_unions: dict[str, Any] = {}
    operations: list[_Operation] = []
    for route in routes:
        for method in route.methods or ():
            operation = described["paths"][route.path_format][method.lower()]
            _complete(operation, route)
            operations.append(operation)
            for body in bodies_of(route):
                if isinstance(body.body_schema, TypeAdapter):
                    of_unions.update(_json_schema(body.body_schema).get("$defs", {}))
                elif body.body_schema is not None:
                    models[body.body_schema] = None
    events = _turn_events()
    models.update(dict.fromkeys(events.values()))
    schemas = {**described["components"]["schemas"], **of_unions}
    described["components"] = _components(schemas, list(models), _share_parameters(operations))
    described["components"]["schemas"]["TurnStreamEvent"] = {
        "description": "An event of a turn's stream. To resume after it, send its `id` as `Last-Event-ID`.",
        "oneOf": [stream_event({"const": name}, model) for name, model in events.items()],
    }
    return described


def _turn_events() -> dict[str, type[BaseModel]]:
    """Returns the models of a turn's events, by the events' names in streams."""
    return {
        public_name(name): ExecuteReply if issubclass(model, ExecuteReply) else model
        for name, model in TURN_EVENTS.items()
    }


def _without_head(route: APIRoute) -> APIRoute:
    """Returns a copy of the route without HEAD, which every GET implies."""
    documented = copy(route)
    documented.methods = (route.methods or set()) - {"HEAD"}
    return documented


def _complete(operation: _Operation, route: APIRoute) -> None:
    """Adds the bodies, errors and common headers, which FastAPI doesn't know about."""
    statuses = {*ALWAYS, *(int(status) for status, answer in operation["responses"].items() if "$ref" in answer)}
    for body in bodies_of(route):
        operation["requestBody"] = _request_body(body)
        statuses.update(_WITH_BODY)
    if _has_query_model(route.dependant):
        statuses.add(422)
    parameters = operation["parameters"] = [_plain(each) for each in operation.get("parameters", ())]
    if any(each["name"] == _IDEMPOTENCY_KEY for each in parameters):
        statuses.update(_WITH_KEY)
    parameters.append(_CORRELATION_ID)
    for security in _credentials(route):
        schemes = SCHEMES[security.dependency]
        operation["security"] = [{scheme.scheme_name: list(security.scopes or ())} for scheme in schemes]
    for scope in next(iter(operation.get("security", [{"none": []}])[0].values())):
        statuses.add(403)
        note = f"Requires the scope `{scope}`."
        operation["description"] = "\n\n".join(filter(None, (operation.get("description"), note)))
    operation["responses"] = {**_answers(operation["responses"]), **_refusals(statuses)}


def _credentials(route: APIRoute) -> Iterator[Security]:
    """Yields the operation's dependencies that authenticate the caller, with the required scopes."""
    for annotation in get_type_hints(route.endpoint, include_extras=True).values():
        for each in getattr(annotation, "__metadata__", ()):
            if isinstance(each, Security) and each.dependency in SCHEMES:
                yield each


def _has_query_model(dependant: Any) -> bool:
    kinds = [each.field_info.annotation for each in dependant.query_params]
    return any(isinstance(each, type) and issubclass(each, QueryModel) for each in kinds)


def _plain(parameter: dict[str, Any]) -> dict[str, Any]:
    """Returns a parameter without the null type, title and repeated description that FastAPI adds."""
    if parameter["in"] == "path":
        return parameter
    schema = {name: value for name, value in parameter["schema"].items() if name not in ("title", "description")}
    return {"name": parameter["name"], "in": parameter["in"], "description": parameter["description"], "schema": schema}


def _share_parameters(operations: list[_Operation]) -> dict[str, Any]:
    """Replaces parameters that many operations share with references. Returns the parameters by name."""
    found = [each for operation in operations for each in operation["parameters"] if each["name"] in _SHARED]
    shared = {}
    for name, reference in _SHARED.items():
        [(text, _)] = Counter(orjson.dumps(each) for each in found if each["name"] == name).most_common(1)
        shared[reference] = orjson.loads(text)
    for operation in operations:
        parameters = operation["parameters"]
        references = [_SHARED[each["name"]] for each in parameters if each in shared.values()]
        own = [each for each in parameters if each not in shared.values()]
        operation["parameters"] = [*own, *({"$ref": f"#/components/parameters/{name}"} for name in references)]
    return shared


def _answers(responses: dict[str, Any]) -> dict[str, Any]:
    """Returns the successful responses, with common headers. Omits FastAPI's 422."""
    answers = {status: answer for status, answer in responses.items() if int(status) < 400}
    for answer in answers.values():
        shared = {"X-Correlation-ID": {"$ref": "#/components/headers/X-Correlation-ID"}}
        answer["headers"] = {**shared, **answer.get("headers", {})}
    return answers


def _refusals(statuses: Iterable[int]) -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _request_body(described: RequestBody) -> dict[str, Any]:
    body = described.request_body
    if described.body_schema is None:
        return body
    schema = _schema(described.body_schema)
    content = {media_type: {"schema": schema, **each} for media_type, each in body["content"].items()}
    return {**body, "content": content}


def _schema(model: Schema) -> dict[str, Any]:
    if isinstance(model, TypeAdapter):
        schema = _json_schema(model)
        schema.pop("$defs", None)
        return schema
    return {"$ref": _REFS.format(model=model.__name__)}


def _json_schema(union: TypeAdapter[Any]) -> dict[str, Any]:
    return union.json_schema(ref_template=_REFS)


def _components(made: dict[str, Any], models: list[type[BaseModel]], parameters: dict[str, Any]) -> dict[str, Any]:
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=_REFS)
    schemas = {**made, **definitions["$defs"]}
    unused = ("HTTPValidationError", "ValidationError")
    return {
        "securitySchemes": {
            scheme.scheme_name: scheme.model.model_dump(mode="json", by_alias=True, exclude_none=True)
            for scheme in dict.fromkeys(scheme for schemes in SCHEMES.values() for scheme in schemes)
        },
        "schemas": {name: schemas[name] for name in sorted(schemas) if name not in unused},
        "parameters": parameters,
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
    entries = {kind: entry for kind, entry in ERRORS.items() if entry.status == status}
    explained = (f"`{each}`: {entry.meaning} {entry.advice}" for each, entry in entries.items())
    examples = {each.value: {"value": _example(each)} for each in entries}
    return {
        "description": "\n\n".join([f"{HTTPStatus(status).phrase}.", *explained]),
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": {"application/json": {"schema": _schema(ErrorBody), "examples": examples}},
    }


def _example(kind: ErrorKind) -> dict[str, Any]:
    return {"error": {"type": kind.value, "message": ERRORS[kind].meaning, "correlation_id": "order-4711"}}

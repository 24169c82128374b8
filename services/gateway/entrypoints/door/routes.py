"""Classes and functions for the routes of the public API and their documentation."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

PREFIX: Final = "/api/v1"
ALWAYS: Final = (400, 401, 429, 500, 503)
"""Error statuses that any operation may return."""
Schema = type[BaseModel] | TypeAdapter[Any]


class RequestBody:
    """A dependency that reads the body, and describes it for the OpenAPI document.

    FastAPI itself would read the body before the caller is authenticated.
    """

    request_body: dict[str, Any]
    body_schema: Schema | None = None


class _NameConvertor(StringConvertor):
    """Converts a path parameter ``{…:name}``, which doesn't match the reserved names below."""

    regex = "(?!(?:available-collections|bulk|validate)/)[^/]+"


register_url_convertor("name", _NameConvertor())


class PublicRoute(APIRoute):
    """An operation's route. Every GET also serves HEAD."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        methods = self.methods or set()
        if "GET" in methods:
            methods.add("HEAD")


def public_router(path: str, tag: str) -> APIRouter:
    """Creates a router for operations below ``/api/v1``."""
    return APIRouter(
        prefix=f"{PREFIX}{path}",
        tags=[tag],
        route_class=PublicRoute,
        default_response_class=Response,
    )


def routes_at(app: FastAPI, path: str) -> list[APIRoute]:
    """Returns the routes that match a path, for any method."""
    return [route for route in app.routes if isinstance(route, APIRoute) and route.path_regex.match(path)]


def methods_of(routes: Iterable[APIRoute]) -> list[str]:
    return sorted({method for route in routes for method in route.methods or ()})


def reads_body(route: APIRoute) -> bool:
    """Returns whether one of the operation's dependencies parses the body."""
    return any(body.body_schema is not None for body in bodies_of(route))


def bodies_of(route: APIRoute) -> Iterator[RequestBody]:
    for each in route.dependant.dependencies:
        if isinstance(each.call, RequestBody):
            yield each.call


def stream_event(event: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Returns the schema of a server-sent event whose ``data`` contains the model as JSON."""
    content = {"$ref": f"#/components/schemas/{model.__name__}"}
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    return {
        "type": "object",
        "properties": {"id": {"type": "string"}, "event": event, "data": data},
        "required": ["id", "event", "data"],
    }


def answer(description: str, model: Any = None, *, location: bool = False) -> dict[str, Any]:
    """Describes a successful response. ``location``: whether it has a header with the created resource's URL."""
    described: dict[str, Any] = {"description": description}
    if model is not None:
        described["model"] = model
    if location:
        described["headers"] = {"Location": {"$ref": "#/components/headers/Location"}}
    return described


def file_answer(description: str) -> dict[str, Any]:
    """Describes a successful response whose body is a file."""
    return {"description": description, "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}


FILE_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: file_answer("The file's bytes."),
    206: file_answer("The requested range of bytes."),
    304: answer("Not modified."),
}
"""The successful responses of a download."""


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describes the errors that an operation may return, in addition to its dependencies' errors."""
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}

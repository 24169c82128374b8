"""Routes of the public API: their prefix, path parameters and class, and a look-up by path."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from services.gateway.entrypoints.door.described import RequestBody

PREFIX: Final = "/api/v1"


class _NameConvertor(StringConvertor):
    """A path parameter ``{…:name}`` that doesn't match fixed names, which have their own operations."""

    regex = "(?!(?:available-collections|bulk|validate)/)[^/]+"


register_url_convertor("name", _NameConvertor())


class PublicRoute(APIRoute):
    """An operation. Every GET also serves HEAD, for which the server omits the response's body."""

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
    """Returns whether a dependency of the operation parses a body."""
    return any(body.body_schema is not None for body in bodies_of(route))


def bodies_of(route: APIRoute) -> Iterator[RequestBody]:
    for each in route.dependant.dependencies:
        if isinstance(each.call, RequestBody):
            yield each.call

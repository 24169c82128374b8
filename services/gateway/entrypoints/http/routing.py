"""Routes of the public API: the prefix, path parameters, the class of all routes, and the operations at a path."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from inspect import iscoroutinefunction, signature
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import SecurityScopes
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from services.gateway.entrypoints.http.reference.described import Described

PREFIX: Final = "/api/v1"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _NameConvertor(StringConvertor):
    """A path parameter ``{…:name}`` beside fixed names, which it leaves to their own operations whatever the method."""

    regex = "(?!(?:available-collections|bulk|validate)/)[^/]+"


register_url_convertor("name", _NameConvertor())


class PublicRoute(APIRoute):
    """An operation. Every GET is a HEAD as well, whose answer the server sends without its body."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        methods = self.methods or set()
        if "GET" in methods:
            methods.add("HEAD")

    def get_route_handler(self) -> Handler:
        """Calls the dependencies here as long as they take nothing but the request, and path parameters are texts.

        For each of them FastAPI's solver would look for parameters and nested dependencies again with every request,
        which costs 10 µs. It still solves those of any other operation.
        """
        return _direct_handler(self.dependant) if _is_direct(self.dependant) else super().get_route_handler()


def _is_direct(operation: Dependant) -> bool:
    fields = [each for each in operation.path_params if each.alias == each.name]
    texts = {each.name for each in fields if each.field_info.annotation is str and not each.field_info.metadata}
    solved = {*texts, operation.request_param_name, *(each.name for each in operation.dependencies)}
    makes_response = operation.call is not None and signature(operation.call).return_annotation is Response
    return makes_response and _takes(operation, solved) and all(map(_takes_request_only, operation.dependencies))


def _takes_request_only(dependency: Dependant) -> bool:
    return _takes(dependency, {dependency.request_param_name, dependency.security_scopes_param_name})


def _takes(called: Dependant, names: set[str | None]) -> bool:
    """Whether these are all parameters of it, and it is asynchronous."""
    call = called.call
    is_asynchronous = iscoroutinefunction(call) or iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
    return is_asynchronous and call is not None and set(signature(call).parameters) == names - {None}


def _direct_handler(operation: Dependant) -> Handler:
    endpoint, request_name = operation.call, operation.request_param_name
    path_names = [each.name for each in operation.path_params]
    dependencies = [_bound(each) for each in operation.dependencies]
    assert endpoint is not None

    async def handle(request: Request) -> Response:
        values: dict[str, Any] = {name: request.path_params[name] for name in path_names}
        for name, call in dependencies:
            value = await call(request)
            if name is not None:
                values[name] = value
        if request_name is not None:
            values[request_name] = request
        response: Response = await endpoint(**values)
        return response

    return handle


def _bound(dependency: Dependant) -> tuple[str | None, Callable[[Request], Awaitable[Any]]]:
    """The argument that a dependency is for, and its call with the scopes that the operation asks for."""
    call, request_name = dependency.call, dependency.request_param_name
    assert call is not None
    fixed: dict[str, Any] = {}
    if dependency.security_scopes_param_name is not None:
        fixed[dependency.security_scopes_param_name] = SecurityScopes(dependency.own_oauth_scopes)
    if request_name is None:
        return dependency.name, lambda _: call(**fixed)
    return dependency.name, lambda request: call(**{request_name: request}, **fixed)


def public_router(path: str, tag: str) -> APIRouter:
    """A router for operations below ``/api/v1``. Operation ids are the names of the functions."""
    return APIRouter(
        prefix=f"{PREFIX}{path}",
        tags=[tag],
        route_class=PublicRoute,
        default_response_class=Response,
        generate_unique_id_function=lambda route: route.name,
    )


def routes_at(app: FastAPI, path: str) -> list[APIRoute]:
    """The routes whose path this is, with any method."""
    return [route for route in app.routes if isinstance(route, APIRoute) and route.path_regex.match(path)]


def methods_of(routes: Iterable[APIRoute]) -> list[str]:
    return sorted({method for route in routes for method in route.methods or ()})


def reads_body(route: APIRoute) -> bool:
    """Whether a dependency of the operation parses a body."""
    calls = (each.call for each in route.dependant.dependencies)
    return any(isinstance(call, Described) and call.body_schema is not None for call in calls)


def described_dependencies(dependant: Dependant) -> Iterator[tuple[Described, list[str]]]:
    """The dependencies of a route that describe themselves, each with the scopes that it is to check."""
    for each in dependant.dependencies:
        if isinstance(each.call, Described):
            yield each.call, each.own_oauth_scopes or []
        yield from described_dependencies(each)

"""Exceptions as replies of the public API: one shape for all of them."""

import structlog
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from libs.contracts.errors import (
    ErrorInfo,
    ErrorKind,
    InternalError,
    NotFound,
    ServiceError,
    ServiceUnavailable,
)
from libs.persistence import is_outage
from libs.service_defaults.errors import error_response
from services.gateway.entrypoints.http.metrics import REFUSALS
from services.gateway.entrypoints.http.routing import methods_of, routes_at

_log = structlog.get_logger("http")


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _no_such_operation)


async def _service_error(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, ServiceError)
    return refusal(problem)


def refusal(problem: ServiceError) -> Response:
    """The answer to a request that is not carried out; it is counted as such."""
    REFUSALS.labels(problem.kind.value).inc()
    response = error_response(problem.info())
    if problem.kind is ErrorKind.TOO_LARGE:
        # The rest of the body may still be on its way: this connection cannot carry another request.
        response.headers["Connection"] = "close"
    return response


async def _no_such_operation(request: Request, problem: Exception) -> Response:
    """404, or a redirect where only the trailing slash is missing; 405 with the methods that the path takes."""
    assert isinstance(problem, HTTPException)
    path = request.scope["path"]
    if problem.status_code == 405:
        methods = ", ".join(methods_of(routes_at(request.app, path)))
        info = ErrorInfo(type=ErrorKind.METHOD_NOT_ALLOWED, message=f"This path takes {methods}.")
        response = error_response(info)
        response.headers["Allow"] = methods
        return response
    if not path.endswith("/") and routes_at(request.app, f"{path}/"):
        query = request.scope["query_string"]
        # The raw path, not the decoded one: it becomes a header.
        location = request.scope["raw_path"] + b"/" + (b"?" + query if query else b"")
        return Response(
            status_code=308, headers={"Location": location.decode("latin-1")}, media_type="application/json"
        )
    return refusal(NotFound("There is nothing at this path."))


def as_service_error(problem: Exception) -> ServiceError:
    """Translates an unexpected exception for the caller. Logs it."""
    if isinstance(problem, RuntimeError) and isinstance(problem.__cause__, Exception):
        # Starlette's way to say that a handled exception came after the response had begun.
        problem = problem.__cause__
    if isinstance(problem, ServiceError):
        return problem
    if is_outage(problem):
        _log.warning("database.unreachable", problem=str(problem).strip())
        return ServiceUnavailable("The gateway's database cannot be reached.", retry_after=2)
    _log.error("request.failed", exc_info=problem)
    return InternalError("Something went wrong on our side.")

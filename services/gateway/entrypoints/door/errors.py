"""Renders exceptions as responses, in a protocol's error format."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from libs.contracts.errors import (
    ErrorDetail,
    ErrorInfo,
    ErrorKind,
    InternalError,
    NotFound,
    ServiceError,
    ServiceUnavailable,
    ValidationFailed,
    dotted_path,
    validation_message,
)
from libs.persistence import is_outage
from libs.service_defaults.errors import STATUSES, error_body, error_response
from services.gateway.domain.accounts import Principal
from services.gateway.domain.public_view import public_error
from services.gateway.entrypoints.door.metrics import REFUSALS
from services.gateway.entrypoints.door.routes import methods_of, routes_at
from services.gateway.entrypoints.door.streams import render_event

_log = structlog.get_logger("http")


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """A protocol's error format. ``body`` renders a response's body. ``event`` renders an event in an open stream.

    ``statuses``: HTTP statuses that differ from the defaults. ``completes_paths``: whether to redirect a request whose
    path lacks the trailing slash.
    """

    body: Callable[[ErrorInfo], bytes]
    event: Callable[[ErrorInfo], bytes]
    statuses: dict[ErrorKind, int] = field(default_factory=dict)
    completes_paths: bool = False

    def response(self, info: ErrorInfo) -> Response:
        return error_response(info, body=self.body(info), status=self.statuses.get(info.type, STATUSES[info.type]))


def _event(info: ErrorInfo) -> bytes:
    return render_event("error", error_body(info))


NATIVE: Final = ErrorShape(error_body, _event, completes_paths=True)
"""The format of ``/api/v1``."""


def install_error_shape(app: FastAPI, shape: ErrorShape = NATIVE) -> None:
    """Makes an application render all errors in this format."""

    async def refused(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, ServiceError)
        return refusal(problem, shape, request)

    async def no_such_operation(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        if problem.status_code == 405:
            return _method_not_allowed(request, shape)
        path = request.scope["path"]
        if shape.completes_paths and not path.endswith("/") and routes_at(request.app, f"{path}/"):
            return _completed_path(request)
        return refusal(NotFound("There is nothing at this path."), shape)

    async def invalid(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        return refusal(_invalid_request(problem), shape, request)

    app.add_exception_handler(ServiceError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, no_such_operation)


def refusal(problem: ServiceError, shape: ErrorShape = NATIVE, request: HTTPConnection | None = None) -> Response:
    """Returns the response to a rejected request, and counts the rejection in the metrics."""
    REFUSALS.labels(problem.kind.value).inc()
    response = shape.response(problem.info() if request is None else info_for(request, problem))
    if problem.kind is ErrorKind.TOO_LARGE:
        # The rest of the body may still arrive, so the connection can't be reused for another request.
        response.headers["Connection"] = "close"
    return response


def _invalid_request(problem: RequestValidationError) -> ValidationFailed:
    details = [
        ErrorDetail(loc=list(each["loc"]), type=each["type"], message=validation_message(each))
        for each in problem.errors()
    ]
    return ValidationFailed(f"Invalid request: {dotted_path(details[0].loc)}: {details[0].message}.", details=details)


def _completed_path(request: Request) -> Response:
    query = request.scope["query_string"]
    # Uses the raw path instead of the decoded one, because it becomes a header.
    location = (request.scope["raw_path"] + b"/" + (b"?" + query if query else b"")).decode("latin-1")
    # Clients that don't follow redirects only show the body.
    message = f"Paths end with a slash. Send the request to {location}."
    return JSONResponse({"message": message}, status_code=308, headers={"Location": location})


def _method_not_allowed(request: Request, shape: ErrorShape) -> Response:
    methods = ", ".join(methods_of(routes_at(request.app, request.scope["path"])))
    response = shape.response(ErrorInfo(type=ErrorKind.METHOD_NOT_ALLOWED, message=f"This path accepts {methods}."))
    response.headers["Allow"] = methods
    return response


def info_for(request: HTTPConnection, problem: ServiceError) -> ErrorInfo:
    """Returns the error as the caller may see it."""
    caller: Principal | None = getattr(request.state, "principal", None)
    is_public = caller is not None and caller.public is not None
    return public_error(problem.info()) if is_public else problem.info()


def as_service_error(problem: Exception) -> ServiceError:
    """Converts an exception into an error for the caller. Logs unexpected exceptions."""
    if isinstance(problem, RuntimeError) and isinstance(problem.__cause__, Exception):
        # Starlette raises this for a handled exception if the response has already begun.
        problem = problem.__cause__
    if isinstance(problem, ServiceError):
        return problem
    if is_outage(problem):
        _log.warning("database.unreachable", problem=str(problem).strip())
        return ServiceUnavailable("The gateway can't reach its database. Try again later.", retry_after=2)
    _log.error("request.failed", exc_info=problem)
    return InternalError("Internal error.")

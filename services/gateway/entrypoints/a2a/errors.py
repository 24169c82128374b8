"""Renders errors in A2A's formats."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from a2a.utils.error_handlers import build_error_details, build_rest_error_payload
from a2a.utils.errors import (
    JSON_RPC_ERROR_CODE_MAP,
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from libs.contracts.errors import ErrorInfo, ErrorKind, ServiceError, dotted_path
from services.gateway.entrypoints.door.errors import ErrorShape
from services.gateway.entrypoints.door.streams import render_event

_CLASSES: Final[Mapping[ErrorKind, type[A2AError]]] = {
    ErrorKind.INVALID_REQUEST: InvalidRequestError,
    ErrorKind.AUTHENTICATION: InvalidRequestError,
    ErrorKind.PERMISSION: InvalidRequestError,
    ErrorKind.QUOTA: InvalidRequestError,
    ErrorKind.NOT_FOUND: TaskNotFoundError,
    ErrorKind.METHOD_NOT_ALLOWED: MethodNotFoundError,
    ErrorKind.CONFLICT: UnsupportedOperationError,
    ErrorKind.TOO_LARGE: InvalidRequestError,
    ErrorKind.UNSUPPORTED_MEDIA_TYPE: ContentTypeNotSupportedError,
    ErrorKind.VALIDATION: InvalidParamsError,
}
_OF_OPERATIONS: Final = frozenset(
    {
        ErrorKind.INVALID_REQUEST,
        ErrorKind.NOT_FOUND,
        ErrorKind.CONFLICT,
        ErrorKind.VALIDATION,
        ErrorKind.UNSUPPORTED_MEDIA_TYPE,
    }
)


def a2a_error(problem: ServiceError) -> A2AError | None:
    """Returns the equivalent A2A error, or None for errors that only have an HTTP status, such as outages."""
    return _translated(problem.info()) if problem.kind in _OF_OPERATIONS else None


def json_rpc_error(request_id: str | int | None, error: A2AError) -> dict[str, Any]:
    """Returns the JSON-RPC response for a failed request."""
    code = JSON_RPC_ERROR_CODE_MAP.get(type(error), -32603)
    fields = {"code": code, "message": error.message, "data": build_error_details(error)}
    return {"jsonrpc": "2.0", "id": request_id, "error": fields}


def http_error(error: A2AError) -> tuple[int, dict[str, Any]]:
    """Returns the status and the body of the HTTP+JSON response for a failed request."""
    payload = build_rest_error_payload(error)
    return payload["error"]["code"], payload


def _translated(info: ErrorInfo) -> A2AError:
    error = _CLASSES.get(info.type, InternalError)
    data: dict[str, Any] = {"type": info.type.value}
    if error is InvalidParamsError and info.details:
        fields = [(dotted_path(detail.loc), detail.message) for detail in info.details]
        data["errors"] = [{"field": field, "message": message} for field, message in fields]
    return error(info.message, data)


def _outside_of_operations(info: ErrorInfo) -> dict[str, Any]:
    # The ID of a JSON-RPC request is unknown here. HTTP+JSON clients read ``details``.
    response = json_rpc_error(None, _translated(info))
    response["error"]["details"] = response["error"]["data"]
    return response


SHAPE: Final = ErrorShape(
    body=lambda info: orjson.dumps(_outside_of_operations(info)),
    event=lambda info: render_event("error", orjson.dumps(_outside_of_operations(info))),
)
"""The format of errors outside of operations: authentication, limits, outages, shutdown."""

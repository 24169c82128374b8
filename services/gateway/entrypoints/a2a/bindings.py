"""A2A's two protocol bindings, which define the format of requests and responses."""

from typing import Any, Final, Protocol, TypeVar

import orjson
from a2a.utils.constants import VERSION_HEADER
from a2a.utils.errors import A2AError, InvalidParamsError, InvalidRequestError, JSONParseError, VersionNotSupportedError
from a2a.utils.proto_utils import validate_proto_required_fields
from fastapi import Request
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from starlette.responses import Response

from libs.contracts.errors import InvalidRequest, ServiceError
from services.gateway.entrypoints.a2a.agent_card import PROTOCOL_VERSION
from services.gateway.entrypoints.a2a.errors import http_error, json_rpc_error
from services.gateway.entrypoints.door.answers import json_answer
from services.gateway.entrypoints.door.json_text import parse_json

M = TypeVar("M", bound=Message)
_OF_BEFORE: Final = "0.3"
"""The version that the protocol assumes if a request doesn't specify one."""


class Binding(Protocol):
    """Renders the outcomes of calls."""

    def result(self, result: dict[str, Any]) -> dict[str, Any]: ...

    def failure(self, error: A2AError) -> Response: ...


class JsonRpc:
    """JSON-RPC: one URL for all methods. Failed methods return status 200."""

    def __init__(self) -> None:
        self._id: str | int | None = None

    def open(self, request: Any) -> tuple[str, Any]:
        """Parses a request into its method and parameters. Raises ``InvalidRequestError``."""
        if not isinstance(request, dict):
            raise InvalidRequestError("A request must be a single object. Batches aren't supported.")
        request_id = request.get("id")
        if isinstance(request_id, str | int) and not isinstance(request_id, bool):
            self._id = request_id
        elif request_id is not None:
            raise InvalidRequestError("id must be a string or an integer.")
        if request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str):
            raise InvalidRequestError('A request must have jsonrpc "2.0" and a method.')
        return request["method"], request.get("params", {})

    def result(self, result: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self._id, "result": result}

    def failure(self, error: A2AError) -> Response:
        return json_answer(orjson.dumps(json_rpc_error(self._id, error)))


class HttpJson:
    """HTTP+JSON: one URL per method. Failed methods return HTTP statuses."""

    def result(self, result: dict[str, Any]) -> dict[str, Any]:
        return result

    def failure(self, error: A2AError) -> Response:
        status, body = http_error(error)
        return json_answer(orjson.dumps(body), status)


def check_version(request: Request) -> None:
    """Raises ``VersionNotSupportedError``."""
    given = request.headers.get(VERSION_HEADER) or request.query_params.get(VERSION_HEADER) or _OF_BEFORE
    if given.partition(".")[0] != PROTOCOL_VERSION.partition(".")[0]:
        raise VersionNotSupportedError(
            f"A2A {given[:20]} isn't supported. Send the header {VERSION_HEADER}: {PROTOCOL_VERSION}."
        )


def parsed(values: Any, model: type[M]) -> M:
    """Parses a method's parameters. Ignores unknown fields of newer releases, as the protocol requires.

    Raises ``InvalidParamsError`` for invalid parameters.
    """
    if not isinstance(values, dict):
        raise InvalidParamsError("params must be an object.")
    try:
        params: M = ParseDict(values, model(), ignore_unknown_fields=True)
    except ParseError as problem:
        raise InvalidParamsError(str(problem)) from None
    validate_proto_required_fields(params)
    return params


def json_of(body: bytes) -> Any:
    """Parses a body. Raises ``JSONParseError``, or ``InvalidParamsError`` for values that can't be stored."""
    try:
        return parse_json(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise JSONParseError("The body isn't valid UTF-8.") from None
    except InvalidRequest as problem:
        raise JSONParseError(problem.message) from None
    except ServiceError as problem:
        raise InvalidParamsError(problem.message) from None


def json_fields(message: Message) -> dict[str, Any]:
    values: dict[str, Any] = MessageToDict(message)
    return values


def json_list_fields(message: Message) -> dict[str, Any]:
    """Converts a list response to JSON, including empty fields, which clients expect."""
    values: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=True)
    return values

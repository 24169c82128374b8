"""Executes calls from A2A clients, over JSON-RPC or HTTP+JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isasyncgenfunction
from typing import Any, Final, TypeVar

import orjson
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
)
from a2a.utils.constants import VERSION_HEADER
from a2a.utils.errors import (
    A2AError,
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    PushNotificationNotSupportedError,
    VersionNotSupportedError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from fastapi import Request
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from starlette.responses import Response

from libs.contracts.errors import InvalidRequest, ServiceError
from libs.contracts.identity import Scope
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import Write
from services.gateway.entrypoints.a2a.errors import a2a_error, http_error, json_rpc_error
from services.gateway.entrypoints.a2a.messages import NO_PUSH_NOTIFICATIONS
from services.gateway.entrypoints.a2a.operations import Operations
from services.gateway.entrypoints.door.answers import value_answer
from services.gateway.entrypoints.door.application import Door
from services.gateway.entrypoints.door.callers import require_scopes
from services.gateway.entrypoints.door.json_text import parse_json
from services.gateway.entrypoints.door.streams import rendered

M = TypeVar("M", bound=Message)
_METHODS: Final[Mapping[str, tuple[type[Message], Scope, Callable[[Operations, Any], Any]]]] = {
    "SendMessage": (SendMessageRequest, Scope.RUNTIME_EXECUTE, Operations.send),
    "SendStreamingMessage": (SendMessageRequest, Scope.RUNTIME_EXECUTE, Operations.stream),
    "GetTask": (GetTaskRequest, Scope.SESSIONS_READ, Operations.get),
    "ListTasks": (ListTasksRequest, Scope.SESSIONS_READ, Operations.list_tasks),
    "CancelTask": (CancelTaskRequest, Scope.RUNTIME_EXECUTE, Operations.cancel),
    "SubscribeToTask": (SubscribeToTaskRequest, Scope.SESSIONS_READ, Operations.subscribe),
}
PROTOCOL_VERSION: Final = "1.0"
_ABOUT_PUSH: Final = ("TaskPushNotificationConfig", "TaskPushNotificationConfigs")
_OF_BEFORE: Final = "0.3"
"""The protocol version of requests that don't specify one."""


class JsonRpc:
    """The JSON-RPC binding, with one URL for all methods. Even failed calls have the status 200."""

    def __init__(self) -> None:
        self._id: str | int | None = None

    def open(self, request: Any) -> tuple[str, Any]:
        """Parses a request into its method and parameters. Raises ``InvalidRequestError`` for an invalid request."""
        if not isinstance(request, dict):
            raise InvalidRequestError("A request must be a single object. Batches aren't supported.")
        request_id = request.get("id")
        if isinstance(request_id, str | int) and not isinstance(request_id, bool):
            self._id = request_id
        elif request_id is not None:
            raise InvalidRequestError("`id` must be a string or an integer.")
        if request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str):
            raise InvalidRequestError('A request must have `"jsonrpc": "2.0"` and a `method`.')
        return request["method"], request.get("params", {})

    def result(self, result: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self._id, "result": result}

    def failure(self, error: A2AError) -> Response:
        return value_answer(json_rpc_error(self._id, error))


class HttpJson:
    """The HTTP+JSON binding, with one URL per method. Failed calls have an HTTP error status."""

    def result(self, result: dict[str, Any]) -> dict[str, Any]:
        return result

    def failure(self, error: A2AError) -> Response:
        status, body = http_error(error)
        return value_answer(body, status)


def check_version(request: Request) -> None:
    """Raises ``VersionNotSupportedError`` if the request asks for an unsupported version of the protocol."""
    given = request.headers.get(VERSION_HEADER) or request.query_params.get(VERSION_HEADER) or _OF_BEFORE
    if given.partition(".")[0] != PROTOCOL_VERSION.partition(".")[0]:
        raise VersionNotSupportedError(
            f"A2A version {given[:20]} isn't supported. Send the header {VERSION_HEADER}: {PROTOCOL_VERSION}."
        )


def parsed(values: Any, model: type[M]) -> M:
    """Parses a method's parameters. Raises ``InvalidParamsError`` for invalid ones.

    Ignores unknown fields, as the protocol requires.
    """
    if not isinstance(values, dict):
        raise InvalidParamsError("`params` must be an object.")
    try:
        params: M = ParseDict(values, model(), ignore_unknown_fields=True)
    except ParseError as problem:
        raise InvalidParamsError(str(problem)) from None
    validate_proto_required_fields(params)
    return params


def json_of(body: bytes) -> Any:
    """Parses a body. Raises ``JSONParseError`` for invalid JSON, and ``InvalidParamsError`` for values that can't
    be stored.
    """
    try:
        return parse_json(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise JSONParseError("The body isn't valid UTF-8.") from None
    except InvalidRequest as problem:
        raise JSONParseError(problem.message) from None
    except ServiceError as problem:
        raise InvalidParamsError(problem.message) from None


@dataclass(frozen=True, slots=True)
class Call:
    """A caller's request to an agent, over one of the protocol's bindings."""

    request: Request
    agent_key: str
    caller: Principal
    write: Write
    door: Door
    binding: JsonRpc | HttpJson

    async def answer(self, method: str, values: Any) -> Response:
        """Executes the method. Raises the errors for which the protocol has no code."""
        try:
            check_version(self.request)
            if method.endswith(_ABOUT_PUSH):
                raise PushNotificationNotSupportedError(NO_PUSH_NOTIFICATIONS)
            if method == "GetExtendedAgentCard":
                raise ExtendedAgentCardNotConfiguredError
            if method not in _METHODS:
                raise MethodNotFoundError(f"Unknown method {method[:100]!r}.")
            takes, scope, operation = _METHODS[method]
            params = parsed(values, takes)
            require_scopes(self.caller, [scope])
            return await self._outcome(operation, params)
        except A2AError as error:
            return self.binding.failure(error)

    async def _outcome(self, operation: Callable[[Operations, Any], Any], params: Message) -> Response:
        operations = Operations(
            door=self.door,
            caller=self.caller,
            agent=await self.door.agents.find(self.caller.identity, self.agent_key),
            write=self.write,
            base=address_of(self.request),
            headers={},
        )
        try:
            if isasyncgenfunction(operation):
                events = rendered(operation(operations, params), self._event)
                return await self.door.streams.respond(self.request, events, self.caller, operations.headers)
            result = await operation(operations, params)
        except ServiceError as problem:
            error = a2a_error(problem)
            if error is None:
                raise
            raise error from None
        # Clients expect the response of ListTasks to include empty fields.
        is_list = isinstance(result, ListTasksResponse)
        fields = MessageToDict(result, always_print_fields_with_no_presence=is_list)
        return value_answer(self.binding.result(fields), headers=operations.headers)

    def _event(self, update: StreamResponse) -> bytes:
        return b"data: " + orjson.dumps(self.binding.result(MessageToDict(update))) + b"\n\n"


def address_of(request: Request) -> str:
    """Returns the gateway's URL as callers see it. A proxy that terminates TLS can specify the scheme."""
    forwarded = request.headers.get("x-forwarded-proto", "").lower()
    scheme = forwarded if forwarded in ("http", "https") else request.url.scheme
    return f"{scheme}://{request.url.netloc}"

"""Answers the calls of A2A clients, over either binding."""

from dataclasses import dataclass
from typing import Any, Final

import orjson
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
)
from a2a.utils.errors import (
    A2AError,
    ExtendedAgentCardNotConfiguredError,
    MethodNotFoundError,
    PushNotificationNotSupportedError,
)
from fastapi import Request
from google.protobuf.message import Message
from starlette.responses import Response

from libs.contracts.errors import ServiceError
from libs.contracts.identity import Scope
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import Write
from services.gateway.entrypoints.a2a.bindings import Binding, check_version, json_fields, json_list_fields, parsed
from services.gateway.entrypoints.a2a.errors import a2a_error
from services.gateway.entrypoints.a2a.messages import NO_PUSH_NOTIFICATIONS
from services.gateway.entrypoints.a2a.operations import Operations
from services.gateway.entrypoints.door.answers import json_answer
from services.gateway.entrypoints.door.application import Door
from services.gateway.entrypoints.door.callers import require_scopes
from services.gateway.entrypoints.door.streams import rendered

_METHODS: Final[dict[str, type[Message]]] = {
    "SendMessage": SendMessageRequest,
    "SendStreamingMessage": SendMessageRequest,
    "GetTask": GetTaskRequest,
    "ListTasks": ListTasksRequest,
    "CancelTask": CancelTaskRequest,
    "SubscribeToTask": SubscribeToTaskRequest,
}
_READS: Final = ("GetTask", "ListTasks", "SubscribeToTask")
_ABOUT_PUSH: Final = ("TaskPushNotificationConfig", "TaskPushNotificationConfigs")


@dataclass(frozen=True, slots=True)
class Call:
    """A caller's request to an agent, over one of the two bindings."""

    request: Request
    agent_key: str
    caller: Principal
    write: Write
    door: Door
    binding: Binding

    async def answer(self, method: str, values: Any) -> Response:
        """Executes the method and renders the response. Raises errors for which the protocol has no code."""
        try:
            check_version(self.request)
            if method.endswith(_ABOUT_PUSH):
                raise PushNotificationNotSupportedError(NO_PUSH_NOTIFICATIONS)
            if method == "GetExtendedAgentCard":
                raise ExtendedAgentCardNotConfiguredError
            if method not in _METHODS:
                raise MethodNotFoundError(f"There is no method {method[:100]!r}.")
            params = parsed(values, _METHODS[method])
            require_scopes(self.caller, [Scope.SESSIONS_READ if method in _READS else Scope.RUNTIME_EXECUTE])
            return await self._outcome(method, params)
        except A2AError as error:
            return self.binding.failure(error)

    async def _outcome(self, method: str, params: Any) -> Response:
        agent = await self.door.agents.find(self.caller.identity, self.agent_key)
        operations = Operations(
            door=self.door,
            caller=self.caller,
            agent=agent,
            write=self.write,
            base=address_of(self.request),
            headers={},
        )
        try:
            if method in ("SendStreamingMessage", "SubscribeToTask"):
                stream = operations.stream if method == "SendStreamingMessage" else operations.subscribe
                events = rendered(stream(params), self._event)
                return await self.door.streams.respond(self.request, events, self.caller, operations.headers)
            result = await _result(operations, method, params)
        except ServiceError as problem:
            error = a2a_error(problem)
            if error is None:
                raise
            raise error from None
        return json_answer(orjson.dumps(self.binding.result(result)), headers=operations.headers)

    def _event(self, update: StreamResponse) -> bytes:
        return b"data: " + orjson.dumps(self.binding.result(json_fields(update))) + b"\n\n"


async def _result(operations: Operations, method: str, params: Any) -> dict[str, Any]:
    match method:
        case "SendMessage":
            return json_fields(SendMessageResponse(task=await operations.send(params)))
        case "GetTask":
            return json_fields(await operations.get(params))
        case "ListTasks":
            return json_list_fields(await operations.list_tasks(params))
        case _:
            return json_fields(await operations.cancel(params))


def address_of(request: Request) -> str:
    """Returns the gateway's URL as the caller sees it, which a proxy that terminates TLS forwards."""
    forwarded = request.headers.get("x-forwarded-proto", "").lower()
    scheme = forwarded if forwarded in ("http", "https") else request.url.scheme
    return f"{scheme}://{request.url.netloc}"

"""Serves ``/a2a/{agent_key}``: every agent and its card, for A2A clients, over JSON-RPC and HTTP+JSON."""

from dataclasses import replace
from typing import Annotated, Any, Final

from a2a.types.a2a_pb2 import GetTaskRequest, ListTasksRequest
from a2a.utils.errors import A2AError, InvalidParamsError
from a2a.utils.proto_utils import parse_params
from fastapi import Depends, Request, Security
from google.protobuf.json_format import MessageToDict, ParseError
from google.protobuf.message import Message
from starlette.responses import Response

from libs.contracts.errors import AuthenticationFailed, NotFound, ValidationFailed
from libs.contracts.identity import Scope
from libs.contracts.resources.agents import Agent
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.a2a.calls import PROTOCOL_VERSION, Call, HttpJson, JsonRpc, address_of, json_of
from services.gateway.entrypoints.a2a.errors import SHAPE
from services.gateway.entrypoints.a2a.messages import INPUT_MODES, OUTPUT_MODES, find_raw_image
from services.gateway.entrypoints.door.answers import value_answer
from services.gateway.entrypoints.door.application import Door, DoorDep, ProtocolApplication, protocol_router
from services.gateway.entrypoints.door.bodies import MAX_BODY
from services.gateway.entrypoints.door.callers import authenticated, by_api_key
from services.gateway.entrypoints.door.image_bodies import read_with_images, take_out_images
from services.gateway.entrypoints.door.writes import PlainWrite

PREFIX: Final = "/a2a"
router: Final = protocol_router(PREFIX + "/{agent_key}")


class A2AApplication(ProtocolApplication):
    def __init__(self, door: Door) -> None:
        super().__init__(door, PREFIX, (router,), SHAPE)


async def _http_json(
    request: Request,
    agent_key: str,
    caller: Annotated[Principal, Security(by_api_key)],
    write: PlainWrite,
    door: DoorDep,
) -> Call:
    return Call(request, agent_key, caller, write, door, HttpJson())


HttpCall = Annotated[Call, Depends(_http_json)]


@router.get("/.well-known/agent-card.json")
async def agent_card(request: Request, agent_key: str, door: DoorDep) -> Response:
    """Returns an agent's card. Without a credential, only public agents are found."""
    if "x-api-key" in request.headers or "authorization" in request.headers:
        caller = await authenticated(request, [Scope.AGENTS_READ])
        agent = await door.agents.find(caller.identity, agent_key)
    else:
        try:
            agent = await door.agents.find_public(agent_key)
        except NotFound:
            raise AuthenticationFailed("No public agent has this key. Other agents require a credential.") from None
    card = _card_of(agent, f"{address_of(request)}{PREFIX}/{agent_key}")
    return value_answer(card, headers={"Cache-Control": "private, max-age=60"})


@router.post("")
@router.post("/")
async def json_rpc(request: Request, call: HttpCall) -> Response:
    body = await read_with_images(request, MAX_BODY)
    binding = JsonRpc()
    try:
        values = json_of(body)
        given = values.get("params") if isinstance(values, dict) else None
        await _take_out_images(request, call, given, len(body))
        method, params = binding.open(values)
    except A2AError as error:
        return binding.failure(error)
    return await replace(call, binding=binding).answer(method, params)


@router.post("/message:send")
async def send_message(request: Request, call: HttpCall) -> Response:
    return await _with_body(request, call, "SendMessage")


@router.post("/message:stream")
async def stream_message(request: Request, call: HttpCall) -> Response:
    return await _with_body(request, call, "SendStreamingMessage")


@router.get("/tasks/{task_id}:subscribe")
@router.post("/tasks/{task_id}:subscribe")
async def subscribe_to_task(task_id: str, call: HttpCall) -> Response:
    return await call.answer("SubscribeToTask", {"id": task_id})


@router.post("/tasks/{task_id}:cancel")
async def cancel_task(task_id: str, call: HttpCall) -> Response:
    return await call.answer("CancelTask", {"id": task_id})


@router.get("/tasks")
async def list_tasks(request: Request, call: HttpCall) -> Response:
    return await _with_query(request, call, "ListTasks", ListTasksRequest())


@router.get("/tasks/{task_id}")
async def get_task(request: Request, task_id: str, call: HttpCall) -> Response:
    return await _with_query(request, call, "GetTask", GetTaskRequest(id=task_id))


@router.api_route("/tasks/{task_id}/pushNotificationConfigs", methods=["GET", "POST"])
@router.api_route("/tasks/{task_id}/pushNotificationConfigs/{config_id}", methods=["GET", "DELETE"])
async def push_notifications(call: HttpCall) -> Response:
    return await call.answer("TaskPushNotificationConfig", {})


@router.get("/extendedAgentCard")
async def extended_card(call: HttpCall) -> Response:
    return await call.answer("GetExtendedAgentCard", {})


async def _with_body(request: Request, call: Call, method: str) -> Response:
    body = await read_with_images(request, MAX_BODY)
    try:
        values = json_of(body)
        await _take_out_images(request, call, values, len(body))
    except A2AError as error:
        return call.binding.failure(error)
    return await call.answer(method, values)


async def _take_out_images(request: Request, call: Call, values: Any, size: int) -> None:
    """Replaces the images in a message with short URLs. Raises ``InvalidParamsError`` for an invalid image."""
    try:
        await take_out_images(request, values, size, MAX_BODY, ("message",), find_raw_image)
    except ValidationFailed as problem:
        raise InvalidParamsError(problem.message) from None
    call.write.images = request.state.images


async def _with_query(request: Request, call: Call, method: str, params: Message) -> Response:
    try:
        parse_params(request.query_params, params)
    except ParseError as problem:
        return call.binding.failure(InvalidParamsError(str(problem)))
    return await call.answer(method, MessageToDict(params))


def _card_of(agent: Agent, address: str) -> dict[str, Any]:
    """Returns an agent's card. Omits instructions and tools, since it can be public. ``address``: the agent's URL."""
    return {
        "name": agent.name,
        "description": f"The agent {agent.name}.",
        "version": agent.version_number,
        "supportedInterfaces": [
            {"url": address, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION}
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "securitySchemes": {
            "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "x-api-key"}},
            "bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
        },
        "securityRequirements": [{"schemes": {"apiKey": {"list": []}}}, {"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": list(INPUT_MODES),
        "defaultOutputModes": list(OUTPUT_MODES),
        "skills": [
            {
                "id": agent.agent_key,
                "name": agent.name,
                "description": "Answers messages.",
                "tags": [agent.architecture],
            }
        ],
    }

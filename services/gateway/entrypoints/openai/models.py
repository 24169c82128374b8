"""Serves ``/openai/v1/models``: the caller's agents, and the models of the configured providers."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import Security
from starlette.responses import Response

from libs.contracts.identity import Scope
from libs.contracts.resources.agents import Agent
from libs.contracts.timestamps import parse_time
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import value_answer
from services.gateway.entrypoints.door.application import DoorDep, protocol_router
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.openai.conventions import PREFIX

router: Final = protocol_router(f"{PREFIX}/models")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.AGENTS_READ])]


@router.get("")
async def list_models(caller: Reader, door: DoorDep) -> Response:
    agents, models = await asyncio.gather(
        door.agents.visible_to(caller.identity), door.agents.provider_models(caller.identity)
    )
    data = [*(_agent(agent) for agent in agents), *(_of_provider(name) for name in models)]
    return value_answer({"object": "list", "data": data})


@router.get("/{model:path}")
async def get_model(model: str, caller: Reader, door: DoorDep) -> Response:
    if ":" not in model:
        return value_answer(_agent(await door.agents.find(caller.identity, model)))
    await door.agents.beginning_of(caller.identity, model)
    return value_answer(_of_provider(model))


def _agent(agent: Agent) -> dict[str, Any]:
    created = int(parse_time(agent.created_at).timestamp())
    return {"id": agent.agent_key, "object": "model", "created": created, "owned_by": agent.owner}


def _of_provider(model: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": 0, "owned_by": model.partition(":")[0]}

"""The parts of the gateway that every protocol uses."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from services.gateway.entrypoints.door.answers import Owners
from services.gateway.entrypoints.door.image_bodies import LargeBodies
from services.gateway.entrypoints.door.streams import EventStreams
from services.gateway.entrypoints.door.transfer_proxy import TransferProxy
from services.gateway.use_cases.agents import Agents
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.reading.event_reader import EventReader
from services.gateway.use_cases.sessions import Sessions
from services.gateway.use_cases.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    commands: CommandDispatcher
    agents: Agents
    sessions: Sessions
    turns: Turns
    reader: EventReader
    owners: Owners
    streams: EventStreams
    transfers: TransferProxy
    large_bodies: LargeBodies


async def _door(request: Request) -> Door:
    found: Door = request.app.state.door
    return found


async def _owners(request: Request) -> Owners:
    return (await _door(request)).owners


async def _transfers(request: Request) -> TransferProxy:
    return (await _door(request)).transfers


DoorDep = Annotated[Door, Depends(_door)]
Upstream = Annotated[Owners, Depends(_owners)]
TransferProxyDep = Annotated[TransferProxy, Depends(_transfers)]

"""Executes a write by a command to the service that owns the entity."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from libs.contracts.messages import Command, Received
from services.gateway.domain.idempotency import Write
from services.gateway.entrypoints.door.application import DoorDep
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.use_cases.command_dispatcher import CommandDispatcher, Make


@dataclass(frozen=True, slots=True)
class Submission:
    """Sends an idempotent write's command. Returns its terminal event; raises the owner's refusal."""

    write: Write
    commands: CommandDispatcher

    async def __call__(self, command: Command, *, accepted_within: float | None = None) -> Received:
        """``accepted_within``: seconds for an owner that calls others before it accepts the command."""
        return await self.commands.run(self.write, command, accepted_within=accepted_within)

    async def new(self, command: type[Command], make: Make) -> Received:
        """For commands that need their own ID or more than the body; retries don't build them again."""
        return await self.commands.create(self.write, command, make)


async def _submission(write: IdempotentWrite, door: DoorDep) -> Submission:
    return Submission(write, door.commands)


Submit = Annotated[Submission, Depends(_submission)]
"""Resolved after the body, whose hash it needs."""

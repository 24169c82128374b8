"""Forks a session: a new one with its agent and a copy of its history."""

from dataclasses import dataclass

from libs.contracts.commands import runtime as commands
from libs.contracts.errors import Conflict, NotFound
from libs.contracts.events.runtime import SessionCreated
from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from services.runtime.domain.beginnings import valid_new_id
from services.runtime.domain.sessions import Fork, ForkPoint, OpenWriter, SessionWriter, readable, valid_id


@dataclass(frozen=True, slots=True)
class ForkSession:
    """The copy belongs to the caller, who need only be able to read the source."""

    open_writer: OpenWriter

    async def __call__(self, transaction: Transaction, command: commands.ForkSession, context: CommandContext) -> None:
        writer = self.open_writer(transaction)
        source = readable(await writer.find(valid_id("session", command.source_session_id)), context.identity)
        if not source.active:
            raise NotFound("there is no such session")
        fork = Fork(
            id=valid_new_id(command.session_id),
            source_id=source.id,
            owner_id=context.identity.user_id,
            through=await _last_turn(writer, source.id, command),
        )
        await writer.check_quota(source.company_id)
        forked = await writer.fork(fork)
        if forked is None:
            raise Conflict("the session was deleted meanwhile, or there is, or was, a session with the new id")
        transaction.emit(
            SessionCreated(
                session_id=fork.id,
                config_hash=forked.config_hash,
                agent_id=forked.agent_id,
                owner_id=fork.owner_id,
                forked_from=fork.source_id,
            ),
            subject=fork.id,
            owner_id=fork.owner_id,
        )


async def _last_turn(writer: SessionWriter, session_id: str, command: commands.ForkSession) -> int | None:
    """The position of the last turn that may be copied; None: whichever is the last."""
    if command.before_turn_id is not None:
        point = await _point(writer, session_id, command.before_turn_id)
        if not point.have_those_before_ended:
            raise Conflict("a turn before it has not ended yet")
        return point.position - 1
    if command.up_to_turn_id is None:
        return None
    point = await _point(writer, session_id, command.up_to_turn_id)
    if not point.has_ended:
        raise Conflict("the turn has not ended yet")
    return point.position


async def _point(writer: SessionWriter, session_id: str, turn_id: str) -> ForkPoint:
    point = await writer.fork_point(session_id, valid_id("turn", turn_id))
    if point is None:
        raise NotFound("there is no such turn")
    return point

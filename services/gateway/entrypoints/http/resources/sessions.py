"""``/sessions/…``: conversations."""

from typing import Final

import orjson
from pydantic import TypeAdapter

from libs.contracts.api.sessions import CreateSessionBody, Session, SessionCreatedReply, SessionPage
from libs.contracts.commands.runtime import DeleteSession
from libs.contracts.errors import PermissionDenied
from libs.contracts.identity import Scope
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.forwarding import Forwarding, id_in
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import VISITORS, Answer, Body, Operation
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.open_session import OpenSession

_TAG: Final = "Sessions"
_SHOWN_TO_VISITORS: Final = ("name", "agent_type")


class Sessions:
    def __init__(self, open_session: OpenSession, commands: CommandDispatcher, forward: Forwarding) -> None:
        self._open_session = open_session
        self._commands = commands
        self._forward = forward

    async def create(self, request: Request) -> Reply:
        principal = request.principal
        wanted, seen_by = request.body, principal.identity
        if principal.public is not None:
            if not principal.public.names_own_agent(wanted):
                raise PermissionDenied("A public key opens sessions with its own agent only.")
            wanted, seen_by = {"agent_id": principal.public.agent_id}, principal.public.sees_as
        created = await self._open_session(request.write(), wanted, seen_by)
        reply = SessionCreatedReply(session_id=created.session_id, config_hash=created.config_hash)
        location = f"/api/v1/sessions/{created.session_id}/"
        return Reply(201, reply.model_dump_json().encode(), [(b"location", location.encode())])

    async def list(self, request: Request) -> Reply:
        return await self._forward.page(request, "runtime", "/internal/sessions")

    async def get(self, request: Request) -> Reply:
        session_id = id_in(request, "session_id", "session")
        reply = await self._forward.get(request, "runtime", f"/internal/sessions/{session_id}")
        return reply if request.principal.public is None else _for_visitors(reply)

    async def delete(self, request: Request) -> Reply:
        session_id = id_in(request, "session_id", "session")
        await self._commands.run(request.write(), DeleteSession(session_id=session_id), subject=session_id)
        return Reply(204)

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/sessions/",
                name="create_session",
                summary="Open a session",
                description=(
                    "Takes a whole agent configuration, or names a stored agent by `agent_id` or `agent_key`."
                    " With a public key it is that key's agent, which an empty object stands for as well."
                ),
                tag=_TAG,
                handler=self.create,
                scope=Scope.SESSIONS_WRITE,
                credentials=VISITORS,
                writes=True,
                body=Body(schema=TypeAdapter(CreateSessionBody), examples=examples.SESSIONS),
                answers={
                    201: Answer(description="The session is open.", model=SessionCreatedReply, headers=("Location",))
                },
                errors=(404,),
            ),
            Operation(
                method="GET",
                path="/sessions/",
                name="list_sessions",
                summary="List sessions",
                description="Your own; with a `company:…` scope all of the company.",
                tag=_TAG,
                handler=self.list,
                scope=Scope.SESSIONS_READ,
                paged=True,
                answers={200: Answer(description="Sessions, newest first.", model=SessionPage)},
                errors=(422,),
            ),
            Operation(
                method="GET",
                path="/sessions/{session_id}/",
                name="get_session",
                summary="Get a session",
                tag=_TAG,
                handler=self.get,
                scope=Scope.SESSIONS_READ,
                credentials=VISITORS,
                answers={200: Answer(description="The session.", model=Session)},
                errors=(404,),
            ),
            Operation(
                method="DELETE",
                path="/sessions/{session_id}/",
                name="delete_session",
                summary="End a session",
                description="Cancels a running turn first, then removes the session and its history.",
                tag=_TAG,
                handler=self.delete,
                scope=Scope.SESSIONS_WRITE,
                writes=True,
                answers={204: Answer(description="The session is gone.")},
                errors=(404, 409),
            ),
        )


def _for_visitors(reply: Reply) -> Reply:
    """The session without its agent's instructions, which are none of a visitor's business."""
    session = orjson.loads(reply.body)
    configuration = session["agent_config"]
    session["agent_config"] = {name: configuration[name] for name in _SHOWN_TO_VISITORS if name in configuration}
    return Reply(reply.status, orjson.dumps(session), reply.headers)

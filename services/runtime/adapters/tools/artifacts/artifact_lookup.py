"""Looks up the artifact that a model names, for the tools that work on one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from libs.contracts.errors import ServiceError
from libs.contracts.identifiers import is_id
from services.runtime.domain.artifacts import ArtifactFacts, SessionArtifacts
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolFailed

ARTIFACT: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 300,
    "description": "id or name of a file of this session",
}
_MOST_NAMED: Final = 20
Find = Callable[[str], Awaitable[ArtifactFacts]]


@asynccontextmanager
async def artifact_lookup(artifacts: SessionArtifacts, context: ToolContext) -> AsyncIterator[Find]:
    """A function that finds an artifact by id or name. Errors of the artifacts service become ToolFailed."""

    async def find(named: str) -> ArtifactFacts:
        if is_id(named.strip().lower()):
            return await artifacts.get(context.session_id, named.strip().lower(), context.caller)
        known = await artifacts.all(context.session_id, context.caller)
        # The newest of two files of the same name.
        found = next((facts for facts in known if facts.name.lower() == named.strip().lower()), None)
        if found is None:
            names = ", ".join(facts.name for facts in known[:_MOST_NAMED]) or "none"
            raise ToolFailed(f"this session has no file {named[:100]!r}; files: {names}")
        return found

    try:
        yield find
    except ServiceError as problem:
        raise ToolFailed(problem.message) from problem

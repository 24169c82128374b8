"""Copies of artifacts among the company's files."""

from libs.contracts.api.artifacts import PlatformCopy
from libs.contracts.commands.artifacts import CopyArtifactToPlatform, RemoveArtifactFromPlatform
from libs.contracts.errors import NotFound
from libs.contracts.events.artifacts import ArtifactCopied, ArtifactRemoved
from libs.contracts.identifiers import is_id
from libs.contracts.messages import Command
from services.gateway.use_cases.command_dispatcher import CommandDispatcher, Write


class ChangeArtifacts:
    def __init__(self, commands: CommandDispatcher) -> None:
        self._commands = commands

    async def copy(self, write: Write, session_id: str, artifact_id: str) -> PlatformCopy:
        async def make(_: str) -> Command:
            return CopyArtifactToPlatform(session_id=session_id, artifact_id=artifact_id)

        _check(session_id, artifact_id)
        received = await self._commands.run(write, CopyArtifactToPlatform, make, subject=artifact_id)
        return PlatformCopy(file_id=ArtifactCopied.decode(received.payload).file_id)

    async def remove(self, write: Write, session_id: str, artifact_id: str) -> PlatformCopy:
        async def make(_: str) -> Command:
            return RemoveArtifactFromPlatform(session_id=session_id, artifact_id=artifact_id)

        _check(session_id, artifact_id)
        received = await self._commands.run(write, RemoveArtifactFromPlatform, make, subject=artifact_id)
        return PlatformCopy(file_id=ArtifactRemoved.decode(received.payload).file_id)


def _check(session_id: str, artifact_id: str) -> None:
    if not (is_id(session_id) and is_id(artifact_id)):
        raise NotFound("There is no artifact with this id.")

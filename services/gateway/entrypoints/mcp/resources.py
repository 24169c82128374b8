"""MCP resources: conversations and their files."""

import base64
import re
from dataclasses import dataclass
from typing import Final

import orjson
from mcp.types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

from libs.contracts.errors import InvalidRequest, NotFound, TooLarge
from libs.contracts.identity import Scope
from libs.contracts.resources.artifacts import Artifact, ArtifactPage, ArtifactRecord
from libs.contracts.resources.sessions import SessionPage
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.application import Door
from services.gateway.entrypoints.door.callers import require_scopes
from services.gateway.entrypoints.mcp.answers import artifact_uri
from services.gateway.entrypoints.mcp.reading import Reading, agent_name

_PAGE: Final = 50
_LONGEST_LIST: Final = 200
_LARGEST: Final = 4 * 1024 * 1024
_URI: Final = re.compile(r"aes://(sessions|artifacts)/([0-9a-f-]{36})(/artifacts)?", re.ASCII)
_JSON: Final = "application/json"
_TEXTS: Final = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml)|image/svg\+xml", re.ASCII)
TEMPLATES: Final = (
    ResourceTemplate(
        name="session",
        uri_template="aes://sessions/{session_id}",
        description="A conversation's newest messages and open actions.",
        mime_type=_JSON,
    ),
    ResourceTemplate(
        name="session_artifacts",
        uri_template="aes://sessions/{session_id}/artifacts",
        description="A conversation's files, newest first.",
        mime_type=_JSON,
    ),
    ResourceTemplate(
        name="artifact",
        uri_template=artifact_uri("{artifact_id}"),
        description=f"A conversation's file, up to {_LARGEST:,} bytes.",
    ),
)
Contents = TextResourceContents | BlobResourceContents


@dataclass(frozen=True, slots=True)
class Resources:
    """Lists and reads resources. Methods raise ``PermissionDenied`` if the caller lacks a scope."""

    door: Door
    reading: Reading

    async def listed(self, principal: Principal, cursor: str | None) -> tuple[list[Resource], str | None]:
        """Returns a page of the caller's sessions, newest first, and the next page's cursor."""
        require_scopes(principal, [Scope.SESSIONS_READ])
        offset = _offset(cursor)
        params = {"limit": _PAGE, "offset": offset}
        page = await self.door.owners.read(SessionPage, principal, "runtime", "/internal/sessions", params)
        found = [
            Resource(
                uri=f"aes://sessions/{each.session_id}",
                name=f"Session {each.session_id}",
                title=f"{agent_name(each)}, {each.created_at}",
                mime_type=_JSON,
            )
            for each in page.sessions
        ]
        return found, str(offset + _PAGE) if page.has_more else None

    async def read(self, principal: Principal, uri: str) -> Contents:
        """Raises ``NotFound`` for an unknown resource, and ``TooLarge`` for a file that is too large for MCP."""
        matched = _URI.fullmatch(uri)
        match matched and matched.groups():
            case ("sessions", session_id, None):
                require_scopes(principal, [Scope.SESSIONS_READ])
                found = await self.reading.conversation(principal.identity, session_id)
                return TextResourceContents(uri=uri, mime_type=_JSON, text=found.model_dump_json())
            case ("sessions", session_id, _):
                require_scopes(principal, [Scope.ARTIFACTS_READ])
                return await self._artifacts(principal, uri, session_id)
            case ("artifacts", artifact_id, None):
                require_scopes(principal, [Scope.ARTIFACTS_READ])
                return await self._artifact(principal, uri, artifact_id)
        raise NotFound("Unknown resource. List the resource templates to see the available resources.")

    async def _artifacts(self, caller: Principal, uri: str, session_id: str) -> TextResourceContents:
        path, params = f"/internal/sessions/{session_id}/artifacts", {"limit": _LONGEST_LIST, "offset": 0}
        page = await self.door.owners.read(ArtifactPage, caller, "artifacts", path, params)
        listed = [each.model_dump(mode="json", include=set(ArtifactRecord.model_fields)) for each in page.artifacts]
        records = [{**each, "uri": artifact_uri(each["artifact_id"])} for each in listed]
        return TextResourceContents(uri=uri, mime_type=_JSON, text=orjson.dumps(records).decode())

    async def _artifact(self, caller: Principal, uri: str, artifact_id: str) -> Contents:
        record = await self.door.owners.read(Artifact, caller, "artifacts", f"/internal/artifacts/{artifact_id}")
        if record.size > _LARGEST:
            raise TooLarge(f"The file is too large for MCP ({record.size} bytes). Download it from {record.url}.")
        path = f"/internal/sessions/{record.session_id}/artifacts/{artifact_id}/download"
        return _contents(uri, record.content_type, await self.door.owners.file(caller, "artifacts", path))


def _contents(uri: str, media_type: str, content: bytes) -> Contents:
    if _TEXTS.fullmatch(media_type.partition(";")[0].strip()):
        try:
            return TextResourceContents(uri=uri, mime_type=media_type, text=content.decode())
        except UnicodeDecodeError:
            # The text isn't UTF-8, so its bytes are sent unchanged.
            pass
    return BlobResourceContents(uri=uri, mime_type=media_type, blob=base64.b64encode(content).decode())


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 9):
        raise InvalidRequest("Invalid cursor. Omit the cursor to start with the first page.")
    return int(cursor)

"""``/sessions/{session_id}/artifacts/…`` and ``/artifacts/…``: files of sessions."""

from typing import Final
from urllib.parse import parse_qsl, urlencode

import orjson

from libs.contracts.api.artifacts import (
    Artifact,
    ArtifactPage,
    ArtifactPreview,
    ArtifactState,
    ArtifactUrl,
    PlatformCopy,
)
from libs.contracts.commands.artifacts import CopyArtifactToPlatform, RemoveArtifactFromPlatform
from libs.contracts.errors import NotFound, PermissionDenied
from libs.contracts.events.artifacts import ArtifactCopied, ArtifactRemoved
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Scope
from services.gateway.entrypoints.http.forwarding import Forwarding, id_in
from services.gateway.entrypoints.http.messages import Passage, Reply, Request
from services.gateway.entrypoints.http.operations import (
    ANY_CREDENTIAL,
    Answer,
    Credential,
    Operation,
    QueryParameter,
)
from services.gateway.entrypoints.http.uploads import TransferProxy, created
from services.gateway.entrypoints.http.validation import PUBLIC_KEYS, number_of, query_values
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher

_TAG: Final = "Artifacts"
_UPSTREAM: Final = "artifacts"
_OF_SESSION: Final = "/sessions/{session_id}/artifacts/"
_ONE: Final = f"{_OF_SESSION}{{artifact_id}}/"
_BYTES: Final = {
    200: Answer(description="The bytes.", is_file=True),
    206: Answer(description="The part of them that was asked for.", is_file=True),
    304: Answer(description="You have them already."),
    416: Answer(description="The artifact is not as long as that."),
}
_PREVIEW: Final = QueryParameter(
    name="preview",
    description="`1`: to be shown in place, for types that are safe to show; others are downloads all the same.",
)
_MOST_ROWS: Final = 100
_ALSO_FILES: Final = f"Also needs the scope `{Scope.FILES_WRITE}`."
_ROWS: Final = QueryParameter(
    name="rows",
    description="Rows of each sheet.",
    schema={"type": "integer", "minimum": 1, "maximum": _MOST_ROWS, "default": 20},
)


class Artifacts:
    def __init__(self, commands: CommandDispatcher, forward: Forwarding, passing: TransferProxy) -> None:
        self._commands = commands
        self._forward = forward
        self._passing = passing

    async def upload(self, request: Request) -> Reply:
        reply = await self._passing.upload(request, _UPSTREAM, _session_path(request))
        return created(reply, f"/api/v1/artifacts/{orjson.loads(reply)['artifact_id']}/")

    async def list(self, request: Request) -> Reply:
        return await self._forward.page(request, _UPSTREAM, _session_path(request))

    async def get(self, request: Request) -> Reply:
        return await self._forward.get(request, _UPSTREAM, f"/internal/artifacts/{id_in(request, 'id', 'artifact')}")

    async def status(self, request: Request) -> Reply:
        return await self._forward.get(request, _UPSTREAM, f"{_path(request)}/status")

    async def url(self, request: Request) -> Reply:
        return await self._forward.get(request, _UPSTREAM, f"{_path(request)}/url")

    async def preview(self, request: Request) -> Reply:
        number_of(query_values(request.query), _ROWS.name, 20, 1, _MOST_ROWS)
        return await self._forward.get(request, _UPSTREAM, f"{_path(request)}/preview", (_ROWS,))

    async def download(self, request: Request) -> Passage:
        given = query_values(request.query).get(_PREVIEW.name, "")
        query = urlencode({_PREVIEW.name: given}) if len(given) <= 20 else ""
        return self._passing.download(request, _UPSTREAM, f"{_path(request)}/download", query=query)

    async def download_all(self, request: Request) -> Passage:
        return self._passing.download(request, _UPSTREAM, f"{_session_path(request)}/download-all")

    async def by_link(self, request: Request) -> Passage:
        path = f"/internal/artifact-links/{id_in(request, 'id', 'artifact')}"
        # Every parameter as it was given, and as often: the signature covers all of them. A public key that a page adds
        # so that it may read the answer is no part of the link.
        given = parse_qsl(request.query.decode("latin-1"), keep_blank_values=True)
        query = urlencode([(name, value) for name, value in given if name not in PUBLIC_KEYS])
        return self._passing.download(request, _UPSTREAM, path, query=query, judges_caller=True)

    async def copy(self, request: Request) -> Reply:
        command = CopyArtifactToPlatform(**_ids_for_change(request))
        copied = await self._commands.run(request.write(), command, subject=command.artifact_id)
        return _platform_copy(ArtifactCopied.decode(copied.payload).file_id)

    async def remove(self, request: Request) -> Reply:
        command = RemoveArtifactFromPlatform(**_ids_for_change(request))
        removed = await self._commands.run(request.write(), command, subject=command.artifact_id)
        return _platform_copy(ArtifactRemoved.decode(removed.payload).file_id)

    def operations(self) -> tuple[Operation, ...]:
        return (*self._records(), *self._bytes(), *self._writes())

    def _records(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path=_OF_SESSION,
                name="list_artifacts",
                summary="List a session's artifacts",
                tag=_TAG,
                handler=self.list,
                scope=Scope.ARTIFACTS_READ,
                credentials=ANY_CREDENTIAL,
                paged=True,
                answers={200: Answer(description="Artifacts, newest first.", model=ArtifactPage)},
                errors=(404, 422),
            ),
            Operation(
                method="GET",
                path="/artifacts/{id}/",
                name="get_artifact",
                summary="Get an artifact's record",
                tag=_TAG,
                handler=self.get,
                scope=Scope.ARTIFACTS_READ,
                credentials=ANY_CREDENTIAL,
                answers={200: Answer(description="The record, with a fresh link.", model=Artifact)},
                errors=(404,),
            ),
            Operation(
                method="GET",
                path=f"{_ONE}status/",
                name="get_artifact_status",
                summary="See how far an artifact is processed",
                description="`pending`, then `ready` or `failed`. Images are ready at once.",
                tag=_TAG,
                handler=self.status,
                scope=Scope.ARTIFACTS_READ,
                credentials=ANY_CREDENTIAL,
                answers={200: Answer(description="Status and progress.", model=ArtifactState)},
                errors=(404,),
            ),
            Operation(
                method="GET",
                path=f"{_ONE}url/",
                name="get_artifact_url",
                summary="Get a fresh download link",
                description="It works for anybody, without a credential, until it expires.",
                tag=_TAG,
                handler=self.url,
                scope=Scope.ARTIFACTS_READ,
                credentials=ANY_CREDENTIAL,
                answers={200: Answer(description="The link.", model=ArtifactUrl)},
                errors=(404,),
            ),
            Operation(
                method="GET",
                path=f"{_ONE}preview/",
                name="preview_artifact",
                summary="See what tables an artifact holds",
                description="Of CSV, XLSX and XLS files, and of JSON arrays of objects.",
                tag=_TAG,
                handler=self.preview,
                scope=Scope.ARTIFACTS_READ,
                credentials=ANY_CREDENTIAL,
                query=(_ROWS,),
                answers={200: Answer(description="Sheets with their first rows.", model=ArtifactPreview)},
                errors=(404, 409, 415, 422),
            ),
        )

    def _bytes(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path=f"{_ONE}download/",
                name="download_artifact",
                summary="Download an artifact",
                description="Takes `Range` and `If-None-Match`; `ETag` names the content.",
                tag=_TAG,
                handler=self.download,
                scope=Scope.ARTIFACTS_READ,
                credentials=ANY_CREDENTIAL,
                query=(_PREVIEW,),
                answers=_BYTES,
                errors=(404,),
            ),
            Operation(
                method="GET",
                path=f"{_OF_SESSION}download-all/",
                name="download_artifacts",
                summary="Download every artifact of a session",
                description="One ZIP archive, made while it is sent; equal names are made distinct.",
                tag=_TAG,
                handler=self.download_all,
                scope=Scope.ARTIFACTS_READ,
                credentials=ANY_CREDENTIAL,
                answers={200: Answer(description="The archive.", is_file=True)},
                errors=(404,),
            ),
            Operation(
                method="GET",
                path="/artifacts/{id}/content/",
                name="follow_artifact_link",
                summary="Follow a download link",
                description="Links are made by the service: the signature covers the artifact and every parameter.",
                tag=_TAG,
                handler=self.by_link,
                anonymous=True,
                query=(
                    QueryParameter(name="expires", description="Of the link, in seconds since 1970."),
                    QueryParameter(name="signature", description="Of the link."),
                ),
                answers=_BYTES,
                errors=(404,),
            ),
        )

    def _writes(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path=_OF_SESSION,
                name="upload_artifact",
                summary="Upload a file into a session",
                description=(
                    "One file in a field named `file`, of at most 50 MB. The type is told by the extension and checked"
                    " against the content; it decides how the file is processed. Refer to it from messages by its"
                    " `artifact_id`, or by its `url` for an image."
                ),
                tag=_TAG,
                handler=self.upload,
                scope=Scope.ARTIFACTS_WRITE,
                credentials=ANY_CREDENTIAL,
                writes=True,
                uploads=True,
                answers={201: Answer(description="What was stored.", model=Artifact, headers=("Location",))},
                errors=(404,),
            ),
            Operation(
                method="POST",
                path=f"{_ONE}copy-to-platform/",
                name="copy_artifact_to_platform",
                summary="Keep an agent's artifact as a file",
                description=f"The company's files have a copy of it. Only of what an agent made. {_ALSO_FILES}",
                tag=_TAG,
                handler=self.copy,
                scope=Scope.ARTIFACTS_WRITE,
                credentials=frozenset({Credential.BEARER}),
                writes=True,
                answers={200: Answer(description="It is a file now.", model=PlatformCopy)},
                errors=(404, 409),
            ),
            Operation(
                method="POST",
                path=f"{_ONE}remove-from-platform/",
                name="remove_artifact_from_platform",
                summary="Undo copy-to-platform",
                description=f"Deletes the file that was made of the artifact; the artifact stays. {_ALSO_FILES}",
                tag=_TAG,
                handler=self.remove,
                scope=Scope.ARTIFACTS_WRITE,
                credentials=frozenset({Credential.BEARER}),
                writes=True,
                answers={200: Answer(description="The file is gone.", model=PlatformCopy)},
                errors=(404, 409),
            ),
        )


def _ids_for_change(request: Request) -> dict[str, str]:
    """The ids in the path. Beside its own scope the operation needs one for files, as the copy is no artifact."""
    if not request.principal.identity.allows(Scope.FILES_WRITE):
        raise PermissionDenied(f"The credential lacks the scope {Scope.FILES_WRITE}.")
    ids = {name: request.parameters[name] for name in ("session_id", "artifact_id")}
    if not all(map(is_id, ids.values())):
        raise NotFound("There is no artifact with this id.")
    return ids


def _platform_copy(file_id: str) -> Reply:
    return Reply(200, PlatformCopy(file_id=file_id).model_dump_json().encode())


def _session_path(request: Request) -> str:
    return f"/internal/sessions/{id_in(request, 'session_id', 'session')}/artifacts"


def _path(request: Request) -> str:
    return f"{_session_path(request)}/{id_in(request, 'artifact_id', 'artifact')}"

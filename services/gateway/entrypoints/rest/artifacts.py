"""Serves ``/sessions/{session_id}/artifacts/…`` and ``/artifacts/…``: the files of sessions."""

from typing import Annotated, Final
from urllib.parse import parse_qsl, urlencode

import orjson
from fastapi import Depends, Query, Request, Security
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.artifacts import (
    Artifact,
    ArtifactCopied,
    ArtifactPage,
    ArtifactPreview,
    ArtifactRemoved,
    ArtifactState,
    ArtifactUrl,
    CopyArtifactToPlatform,
    PlatformCopy,
    RemoveArtifactFromPlatform,
)
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import created, model_answer
from services.gateway.entrypoints.door.application import Submit, TransferProxyDep, Upstream
from services.gateway.entrypoints.door.callers import anonymous, by_api_key, by_api_key_or_public_key
from services.gateway.entrypoints.door.queries import PUBLIC_KEYS, Page, whole_number
from services.gateway.entrypoints.door.routes import FILE_ANSWERS, answer, errors, file_answer, public_router
from services.gateway.entrypoints.door.upload_stream import SingleUploadBody, UploadStream

router = public_router("", "Artifacts")
Reader = Annotated[Principal, Security(by_api_key_or_public_key, scopes=[Scope.ARTIFACTS_READ])]
Writer = Annotated[Principal, Security(by_api_key_or_public_key, scopes=[Scope.ARTIFACTS_WRITE])]
# The copy is one of the company's files.
Copier = Annotated[Principal, Security(by_api_key, scopes=[Scope.ARTIFACTS_WRITE, Scope.FILES_WRITE])]
_UPSTREAM: Final = "artifacts"
_OF_SESSION: Final = "/sessions/{session_id}/artifacts/"
_ONE: Final = f"{_OF_SESSION}{{artifact_id}}/"
_MAX_ROWS: Final = 100
_ROWS: Final = 20
_Rows = Annotated[
    int,
    Field(ge=1, le=_MAX_ROWS),
    whole_number("rows", 1, _MAX_ROWS, _ROWS),
    Query(description="The maximum number of rows per sheet."),
]
_Preview = Annotated[
    str | SkipJsonSchema[None],
    Query(description="`1` displays the file in the browser if its type is safe. Files of other types are downloaded."),
]
_Expires = Annotated[
    str | SkipJsonSchema[None],
    Query(alias="expires", description="The time at which the link expires, as a Unix timestamp in seconds."),
]
_Signature = Annotated[str | SkipJsonSchema[None], Query(alias="signature", description="The link's signature.")]
Upload = Annotated[UploadStream, Depends(SingleUploadBody())]


@router.get(
    _OF_SESSION,
    operation_id="artifacts.list",
    summary="List a session's artifacts",
    responses={200: answer("Artifacts, newest first.", ArtifactPage), **errors(404)},
)
async def list_artifacts(session_id: str, caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, _UPSTREAM, _session_path(session_id), page.params())


@router.get(
    "/artifacts/{id}/",
    operation_id="artifacts.get",
    summary="Get an artifact",
    responses={200: answer("The artifact, with a fresh download link.", Artifact), **errors(404)},
)
async def get_artifact(id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, _UPSTREAM, f"/internal/artifacts/{id_of(id, 'artifact')}")


@router.get(
    f"{_ONE}status/",
    operation_id="artifacts.status",
    summary="Get the processing status of an artifact",
    description="The status is `pending`, then `ready` or `failed`. Images are `ready` immediately.",
    responses={200: answer("The status and progress.", ArtifactState), **errors(404)},
)
async def get_artifact_status(session_id: str, artifact_id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, _UPSTREAM, f"{_path(session_id, artifact_id)}/status")


@router.get(
    f"{_ONE}url/",
    operation_id="artifacts.url",
    summary="Get a fresh download link",
    description="Until the link expires, anyone with the link can download the file without a credential.",
    responses={200: answer("The link.", ArtifactUrl), **errors(404)},
)
async def get_artifact_url(session_id: str, artifact_id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, _UPSTREAM, f"{_path(session_id, artifact_id)}/url")


@router.get(
    f"{_ONE}preview/",
    operation_id="artifacts.preview",
    summary="Preview an artifact's tables",
    description="Supports CSV, XLSX and XLS files, and JSON arrays of objects.",
    responses={200: answer("The sheets with their first rows.", ArtifactPreview), **errors(404, 409, 415, 422)},
)
async def preview_artifact(
    session_id: str, artifact_id: str, caller: Reader, upstream: Upstream, rows: _Rows = _ROWS
) -> Response:
    return await upstream.get(caller, _UPSTREAM, f"{_path(session_id, artifact_id)}/preview", {"rows": rows})


@router.get(
    f"{_ONE}download/",
    operation_id="artifacts.download",
    summary="Download an artifact",
    description="Supports `Range` and `If-None-Match`; `ETag` identifies the content.",
    responses={**FILE_ANSWERS, **errors(404, 416)},
)
async def download_artifact(
    request: Request,
    session_id: str,
    artifact_id: str,
    caller: Reader,
    transfers: TransferProxyDep,
    preview: _Preview = None,
) -> Response:
    path = f"{_path(session_id, artifact_id)}/download"
    given = preview or ""
    if len(given) <= 20:
        path += "?" + urlencode({"preview": given})
    return await transfers.download(request, caller, _UPSTREAM, path)


@router.get(
    f"{_OF_SESSION}download-all/",
    operation_id="artifacts.download_all",
    summary="Download all artifacts of a session",
    description="Streams a ZIP archive. Duplicate names are numbered.",
    responses={200: file_answer("The archive."), **errors(404)},
)
async def download_artifacts(
    request: Request, session_id: str, caller: Reader, transfers: TransferProxyDep
) -> Response:
    return await transfers.download(request, caller, _UPSTREAM, f"{_session_path(session_id)}/download-all")


@router.get(
    "/artifacts/{id}/content/",
    operation_id="artifacts.content",
    summary="Download a file by its link",
    description="Use the links that the service returns. The signature covers the artifact and all parameters.",
    responses={**FILE_ANSWERS, **errors(404, 416)},
)
async def follow_artifact_link(
    request: Request,
    id: str,
    caller: Annotated[Principal, Depends(anonymous)],
    transfers: TransferProxyDep,
    _expires: _Expires = None,
    _signature: _Signature = None,
) -> Response:
    path = f"/internal/artifact-links/{id_of(id, 'artifact')}"
    # Passes all parameters on as given, because the signature covers them. The signature doesn't cover a public key,
    # which pages add so that they can read the response.
    given = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    query = urlencode([(name, value) for name, value in given if name not in PUBLIC_KEYS])
    target = f"{path}?{query}" if query else path
    return await transfers.download(request, caller, _UPSTREAM, target, checks_credential=True)


@router.post(
    _OF_SESSION,
    operation_id="artifacts.upload",
    summary="Upload a file to a session",
    description=(
        "Send one file of up to 50 MiB in a field named `file`. The extension determines how the file is processed,"
        " and must match the content. In messages, reference the file by its `artifact_id`. For an"
        " image, its `url` also works."
    ),
    status_code=201,
    responses={201: answer("The stored artifact.", Artifact, location=True), **errors(404)},
)
async def upload_artifact(
    request: Request, session_id: str, caller: Writer, body: Upload, transfers: TransferProxyDep
) -> Response:
    reply = await transfers.upload(request, caller, body, _UPSTREAM, _session_path(session_id))
    return created(reply, f"/artifacts/{orjson.loads(reply)['artifact_id']}/")


@router.post(
    f"{_ONE}copy-to-platform/",
    operation_id="artifacts.copy_to_platform",
    summary="Copy an artifact to the company's files",
    description="Only artifacts created by an agent can be copied.",
    responses={200: answer("The ID of the artifact's copy in the company's files.", PlatformCopy), **errors(404, 409)},
)
async def copy_artifact_to_platform(session_id: str, artifact_id: str, _: Copier, submit: Submit) -> Response:
    copied = await submit(CopyArtifactToPlatform(**_ids(session_id, artifact_id)))
    return model_answer(PlatformCopy(file_id=ArtifactCopied.decode(copied.payload).file_id))


@router.post(
    f"{_ONE}remove-from-platform/",
    operation_id="artifacts.remove_from_platform",
    summary="Remove an artifact from the company's files",
    description="Deletes the copy. The artifact remains.",
    responses={200: answer("The file was deleted.", PlatformCopy), **errors(404, 409)},
)
async def remove_artifact_from_platform(session_id: str, artifact_id: str, _: Copier, submit: Submit) -> Response:
    removed = await submit(RemoveArtifactFromPlatform(**_ids(session_id, artifact_id)))
    return model_answer(PlatformCopy(file_id=ArtifactRemoved.decode(removed.payload).file_id))


def _ids(session_id: str, artifact_id: str) -> dict[str, str]:
    return {"session_id": id_of(session_id, "session"), "artifact_id": id_of(artifact_id, "artifact")}


def _session_path(session_id: str) -> str:
    return f"/internal/sessions/{id_of(session_id, 'session')}/artifacts"


def _path(session_id: str, artifact_id: str) -> str:
    return f"{_session_path(session_id)}/{id_of(artifact_id, 'artifact')}"

"""Answering with the bytes of an artifact."""

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from libs.service_defaults.downloads import download_headers, wanted
from services.artifacts.domain.artifacts import StoredArtifact, is_safe_inline
from services.artifacts.use_cases.read_artifacts import ArtifactReading


async def bytes_of(request: Request, reading: ArtifactReading, artifact: StoredArtifact, *, preview: bool) -> Response:
    """All of it, or the part that is asked for; in place only what no browser runs."""
    want = wanted(request.headers, size=artifact.size, etag=f'"{artifact.sha256}"')
    inline = preview and is_safe_inline(artifact.content_type)
    headers = download_headers(want, name=artifact.name, inline=inline)
    if want.length == 0:
        return Response(status_code=want.status, headers=headers)
    pieces = await reading.content(artifact, start=want.start, length=want.length)
    # As a header, since a media type of text would be given a character set that is not known.
    return StreamingResponse(pieces, want.status, {**headers, "Content-Type": artifact.content_type})

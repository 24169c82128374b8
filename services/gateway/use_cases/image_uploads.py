"""Stores a request's images as artifacts of its session, and replaces the images with references."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from libs.contracts.errors import ErrorDetail, PermissionDenied, UnsupportedMediaType, ValidationFailed
from libs.contracts.identity import Identity, Scope
from libs.contracts.resources.artifacts import Artifact
from libs.contracts.resources.messages import (
    ArtifactSource,
    ContentBlock,
    FileBlock,
    HistoryMessage,
    ImageUrlBlock,
    SaidFile,
)
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import refusal
from services.gateway.domain.idempotency import Write
from services.gateway.domain.inline_images import InlineImage, InlineImages

B = TypeVar("B")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class ImageUploads:
    """Uploads images. An image's digest is its idempotency key in the session, so a retry finds the artifact."""

    upstreams: UpstreamClient

    async def content(
        self, write: Write, session_id: str, content: str | Sequence[ContentBlock]
    ) -> str | list[ContentBlock]:
        """Returns a turn's content, with references instead of inline images.

        Raises ``PermissionDenied`` if the caller may not upload artifacts, and any error that an upload raises.
        """
        if isinstance(content, str):
            return content
        return [await self._stored(write, session_id, block, _named) for block in content]

    async def history(
        self, write: Write, session_id: str, messages: Sequence[HistoryMessage]
    ) -> Sequence[HistoryMessage]:
        """Returns a history, with references instead of inline images. Raises the same errors as ``content``."""
        return [await self._message(write, session_id, message) for message in messages]

    async def _message(self, write: Write, session_id: str, message: HistoryMessage) -> HistoryMessage:
        if isinstance(message.content, str):
            return message
        blocks = [await self._stored(write, session_id, block, _history_file) for block in message.content]
        return message.model_copy(update={"content": blocks})

    async def _stored(
        self, write: Write, session_id: str, block: B, form: Callable[[Artifact, ImageUrlBlock], F]
    ) -> B | F:
        """Returns the block unchanged, or the reference that ``form`` builds."""
        images = write.images
        if images is None or not isinstance(block, ImageUrlBlock):
            return block
        url = block.image_url.url
        if (image := images.waiting.get(url)) is not None:
            images.artifacts[url] = await self._upload(write.identity, session_id, image)
            await _forget(images, url)
        artifact = images.artifacts.get(url)
        return block if artifact is None else form(artifact, block)

    async def _upload(self, caller: Identity, session_id: str, image: InlineImage) -> Artifact:
        if not caller.allows(Scope.ARTIFACTS_WRITE):
            raise PermissionDenied(
                f"An image in a message requires the scope {Scope.ARTIFACTS_WRITE}, which the credential lacks."
            )
        boundary = uuid4().hex
        headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Idempotency-Key": f"image:{image.digest}",
        }
        path = f"/internal/sessions/{session_id}/artifacts"
        async with self.upstreams.exchange(
            "POST", "artifacts", path, caller, body=_form(image, boundary), headers=headers
        ) as answer:
            reply = b"".join([piece async for piece in answer.pieces])
        if answer.status >= 400:
            problem = refusal(answer.status, reply)
            if isinstance(problem, ValidationFailed | UnsupportedMediaType):
                # The upstream's error describes a form, but the caller sent an image in a body.
                detail = ErrorDetail(loc=list(image.path), type="invalid_image", message=problem.message)
                raise ValidationFailed(problem.message, details=[detail])
            raise problem
        return Artifact.model_validate_json(reply)


async def _form(image: InlineImage, boundary: str) -> AsyncIterator[bytes]:
    disposition = f'Content-Disposition: form-data; name="file"; filename="{image.name}"'
    yield f"--{boundary}\r\n{disposition}\r\nContent-Type: {image.content_type}\r\n\r\n".encode()
    yield image.content
    yield f"\r\n--{boundary}--\r\n".encode()


async def _forget(images: InlineImages, url: str) -> None:
    """Releases an image's bytes and, after the last image, the request's slot for a large body."""
    del images.waiting[url]
    if not images.waiting:
        await images.slot.aclose()


def _named(artifact: Artifact, image: ImageUrlBlock) -> FileBlock:
    source = ArtifactSource(artifact_id=artifact.artifact_id)
    return FileBlock(type="file", source=source, detail=image.image_url.detail)


def _history_file(artifact: Artifact, image: ImageUrlBlock) -> SaidFile:
    return SaidFile(
        type="file",
        source=ArtifactSource(artifact_id=artifact.artifact_id),
        detail=image.image_url.detail,
        name=artifact.name,
        content_type=artifact.content_type,
        processing_strategy=artifact.processing_strategy,
    )

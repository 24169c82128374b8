"""Reads bodies that may contain images, and replaces the images with short URLs."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from fastapi import Request
from pydantic import BaseModel

from libs.contracts.errors import RateLimited, TooLarge, invalid_field
from libs.fairness import FairSemaphore, QueueFull
from services.gateway.domain.accounts import Principal
from services.gateway.domain.inline_images import InlineImages
from services.gateway.entrypoints.door.bodies import ParsedBody, ParsedObject, decode_body, read_body
from services.gateway.entrypoints.door.streams import held_by

MOST_WITH_IMAGES: Final = 20 * 1024 * 1024
_AT_ONCE: Final = 6
_OF_COMPANY: Final = 3
_QUEUE: Final = 12
_RETRY_SECONDS: Final = 2
_SMALL: Final = 256 * 1024
_OF_OPENAI: Final = ("messages", "input", "items")
M = TypeVar("M", bound=BaseModel)


class Found(NamedTuple):
    """An image in a part of the body. ``put`` replaces the image with a URL."""

    text: str
    path: tuple[str, ...]
    put: Callable[[str], None]


Find = Callable[[dict[str, Any]], Found | None]
"""Finds the image in a part of the body."""


class LargeBodies:
    """Limits how many large bodies are in progress, because each takes twice its size in memory."""

    def __init__(self) -> None:
        self._slots = FairSemaphore(_AT_ONCE, each=_OF_COMPANY, waiting=_QUEUE)

    async def enter(self, images: InlineImages, company_id: str) -> None:
        """Acquires a slot for a large body. Raises ``RateLimited`` if too many requests are waiting."""
        try:
            await images.slot.enter_async_context(self._slots.acquire(company_id))
        except QueueFull:
            message = "Your company has too many large requests in progress. Try again later."
            raise RateLimited(message, retry_after=_RETRY_SECONDS) from None


async def read_with_images(request: Request, most_bytes: int) -> bytes:
    """Reads a body whose images ``take_out_images`` will replace.

    Raises the same errors as ``read_body``, and ``RateLimited`` if too many large bodies are waiting.
    """
    images = InlineImages()
    held_by(request).push_async_callback(images.slot.aclose)
    request.state.images = images

    async def more() -> int:
        large: LargeBodies = request.app.state.door.large_bodies
        principal: Principal = request.state.principal
        await large.enter(images, principal.identity.company_id)
        return MOST_WITH_IMAGES

    return await read_body(request.receive, request.headers, most_bytes, more)


async def take_out_images(
    request: Request, values: Any, size: int, most_bytes: int, within: Sequence[str], find: Find
) -> None:
    """Replaces each image in the fields ``within`` with a short URL. ``size``: the body's size with its images.

    Raises ``TooLarge`` if the rest of the body exceeds ``most_bytes``, and ``ValidationFailed`` for an invalid image.
    """
    images: InlineImages = request.state.images
    if size <= _SMALL:
        size -= _take(values, images, within, find)
    else:
        size -= await asyncio.to_thread(_take, values, images, within, find)
    if size > most_bytes:
        raise TooLarge.beyond(most_bytes, "The body without its images")
    if not images.waiting:
        await images.slot.aclose()


def _take(values: Any, images: InlineImages, within: Sequence[str], find: Find) -> int:
    """Replaces the images. Returns how many characters were removed."""
    taken = 0
    fields = within if isinstance(values, dict) else ()
    nested = [name for name in fields if isinstance(values.get(name), dict | list)]
    for path, found in chain.from_iterable(_all(values[name], find, [name]) for name in nested):
        try:
            found.put(images.take(found.text, path))
        except ValueError as problem:
            raise invalid_field(path, str(problem), kind="invalid_image") from None
        taken += len(found.text)
    return taken


def _all(value: Any, find: Find, path: list[str | int]) -> Iterator[tuple[tuple[str | int, ...], Found]]:
    """Yields all images with their paths."""
    if isinstance(value, dict) and (found := find(value)) is not None:
        yield (*path, *found.path), found
    for name, child in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(child, dict | list):
            path.append(name)
            yield from _all(child, find, path)
            path.pop()


def find_image_url(part: dict[str, Any]) -> Found | None:
    """Returns the image in a part of an OpenAI message, or None."""
    holder, name = part, "image_url"
    path: tuple[str, ...] = ("image_url",)
    if isinstance(url := part.get("image_url"), dict):
        holder, name, path = url, "url", ("image_url", "url")
    text = holder.get(name)
    if not isinstance(text, str) or text[:5].lower() != "data:":
        return None
    return Found(text, path, lambda url: holder.__setitem__(name, url))


class _WithImages:
    """Mixin that reads bodies with images. ``most_bytes``: the size limit for the body without its images."""

    most_bytes: int

    async def _raw(self, request: Request) -> bytes:
        return await read_with_images(request, self.most_bytes)

    async def _decoded(self, request: Request, raw: bytes, media_type: str) -> Any:
        values = await decode_body(raw, media_type)
        await take_out_images(request, values, len(raw), self.most_bytes, _OF_OPENAI, find_image_url)
        return values


class ParsedBodyWithImages(_WithImages, ParsedBody[M]):
    """Like ``ParsedBody``, for bodies with OpenAI messages, which may contain images."""


class ParsedObjectWithImages(_WithImages, ParsedObject):
    """Like ``ParsedObject``, for bodies with OpenAI messages, which may contain images."""

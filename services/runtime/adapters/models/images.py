"""Images that a provider's client would fetch from within this service: fetched here, under our own rules.

Most providers fetch an image themselves, from the address that they are given. Gemini's wants the bytes.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Final

from services.runtime.adapters.guarded_http import FetchLimits, FetchRefused, GuardedHttp, GuardedResolver
from services.runtime.domain.conversation import ImagePart, Message, UserMessage
from services.runtime.domain.models import ModelFailed, ModelRequest

# What is sent inside a request; providers take about 20 MB in all.
_LIMITS: Final = FetchLimits(largest_bytes=8 * 1024 * 1024)


class ImageFetching:
    """Puts images in the place of their addresses. Only public addresses are fetched from."""

    def __init__(self, resolver: GuardedResolver | None = None, limits: FetchLimits = _LIMITS) -> None:
        self._http = GuardedHttp(resolver=resolver or GuardedResolver(), limits=limits, accept="image/*")

    async def inlined(self, request: ModelRequest) -> ModelRequest:
        """Raises ModelFailed for an image that cannot be had."""
        return replace(request, messages=tuple([await self._message(message) for message in request.messages]))

    async def _message(self, message: Message) -> Message:
        if not isinstance(message, UserMessage) or not message.has_image:
            return message
        parts = [await self._image(part) if isinstance(part, ImagePart) else part for part in message.parts]
        return UserMessage(tuple(parts))

    async def _image(self, part: ImagePart) -> ImagePart:
        if part.url.startswith("data:"):
            return part
        try:
            async with self._http.get(part.url) as response:
                if response.status != 200:
                    raise FetchRefused(f"it is answered with status {response.status}")
                if not response.content_type.startswith("image/"):
                    raise FetchRefused(f"the content is {response.content_type}, no image")
                content = base64.b64encode(await self._http.read(response)).decode()
        except FetchRefused as problem:
            raise ModelFailed(f"an image of the conversation cannot be fetched: {problem}") from problem
        return ImagePart(f"data:{response.content_type};base64,{content}")

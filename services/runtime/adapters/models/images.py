"""Fetches images for providers whose client library would otherwise fetch them itself."""

import asyncio
from dataclasses import replace
from typing import Final

from libs.outbound import FetchLimits, FetchRefused, GuardedHttp, GuardedResolver
from services.runtime.domain.conversation import ImagePart, Message, UserMessage
from services.runtime.domain.images import UnreadableBitmap, data_url
from services.runtime.domain.models import ModelFailed, ModelRequest

# Providers accept requests of about 20 MB, which include the images.
_LIMITS: Final = FetchLimits(largest_bytes=8 * 1024 * 1024)


class ImageFetching:
    """Replaces image URLs in requests with the images' bytes. Fetches only public addresses."""

    def __init__(self, resolver: GuardedResolver | None = None, limits: FetchLimits = _LIMITS) -> None:
        self._http = GuardedHttp(resolver=resolver or GuardedResolver(), limits=limits, accept="image/*")

    async def inlined(self, request: ModelRequest) -> ModelRequest:
        """Returns the request with images as data URLs. Raises ModelFailed if an image can't be fetched."""
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
                    raise FetchRefused(f"the server returned status {response.status}")
                if not response.content_type.startswith("image/"):
                    raise FetchRefused(f"the content type is {response.content_type}, not an image")
                content = await self._http.read(response)
            return ImagePart(await asyncio.to_thread(data_url, response.content_type, content), part.detail)
        except (FetchRefused, UnreadableBitmap) as problem:
            raise ModelFailed(f"An image in the conversation can't be fetched: {problem}.") from problem

"""Images that are fetched in this process: from public addresses only, and as the bytes that Gemini wants."""

import base64
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.messages import TextPart as TheirText
from pydantic_ai.models.function import AgentInfo, FunctionModel

from libs.outbound import FetchLimits, GuardedResolver, is_public
from libs.retry import RetryPolicy
from services.runtime.adapters.models.images import ImageFetching
from services.runtime.adapters.models.known_providers import OTHERS
from services.runtime.adapters.models.pydantic_ai_direct import PydanticAIDirect
from services.runtime.domain.conversation import ImagePart, TextPart, UserMessage
from services.runtime.domain.models import ModelFailed, ModelRequest

PICTURE = b"\x89PNG of a cat"
PATIENT = FetchLimits(timeout=30.0, largest_bytes=1000)


class Gallery:
    """A server on 127.0.0.1 that passes for ``pictures.example``."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(request.path)
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": f"http://127.0.0.1:{self.port}/inside"})
        body = b"x" * 2000 if request.path == "/large" else PICTURE
        kind = "text/html" if request.path == "/page" else "image/png"
        return web.Response(body=body, content_type=kind, status=404 if request.path == "/gone" else 200)

    def fetching(self, *, pretending: bool = True) -> ImageFetching:
        async def resolve(_host: str, _port: int) -> list[str]:
            return ["93.184.216.34"] if pretending else ["127.0.0.1"]

        return ImageFetching(_Redirecting(resolve, pretending), PATIENT)

    def url(self, path: str) -> str:
        return f"http://pictures.example:{self.port}{path}"


class _Redirecting(GuardedResolver):
    """Checks the public address that a name has, and connects to this machine."""

    def __init__(self, resolve, pretending: bool) -> None:  # type: ignore[no-untyped-def]
        super().__init__(is_public, resolve)
        self._pretending = pretending

    async def resolve(self, host, port=0, family=0):  # type: ignore[no-untyped-def]
        found = await super().resolve(host, port, family)
        return [{**each, "host": "127.0.0.1"} for each in found] if self._pretending else found


@pytest.fixture
async def gallery() -> AsyncIterator[Gallery]:
    gallery = Gallery()
    runner = web.ServerRunner(web.Server(gallery.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    gallery.port = runner.addresses[0][1]
    yield gallery
    await runner.cleanup()


def looking_at(url: str) -> ModelRequest:
    return ModelRequest("google:x", "", (UserMessage((TextPart("What is it?"), ImagePart(url, "low"))),))


async def test_the_provider_is_given_the_image_itself(gallery: Gallery, retry: RetryPolicy) -> None:
    seen: list[ModelMessage] = []

    def reply(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        seen.extend(messages)
        return ModelResponse([TheirText("a cat")])

    model = PydanticAIDirect("google", retry, infer=lambda _: FunctionModel(reply), images=gallery.fetching())
    await model.answer(looking_at(gallery.url("/cat")))
    [said] = [part for part in seen[0].parts if isinstance(part, UserPromptPart)]
    text, image = said.content
    assert text == "What is it?"
    assert isinstance(image, BinaryContent)
    assert (image.data, image.media_type, image.vendor_metadata) == (PICTURE, "image/png", {"detail": "low"})


async def test_data_urls_are_not_fetched(gallery: Gallery) -> None:
    request = looking_at("data:image/png;base64," + base64.b64encode(PICTURE).decode())
    assert await gallery.fetching().inlined(request) == request
    assert gallery.asked == []


async def test_other_content_and_private_addresses_are_refused(gallery: Gallery) -> None:
    for url in (
        f"http://pictures.example:{gallery.port}/cat",
        f"http://127.0.0.1:{gallery.port}/cat",
        f"http://[::ffff:127.0.0.1]:{gallery.port}/cat",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
    ):
        with pytest.raises(ModelFailed, match=r"isn't public|only http"):
            await gallery.fetching(pretending=False).inlined(looking_at(url))
    assert gallery.asked == []
    for path, problem in (
        ("/page", "text/html, not an image"),
        ("/gone", "status 404"),
        ("/large", "larger than 1000 bytes"),
        ("/moved", "isn't public"),
    ):
        with pytest.raises(ModelFailed, match=problem):
            await gallery.fetching().inlined(looking_at(gallery.url(path)))
    assert "/inside" not in gallery.asked


def test_the_providers_whose_client_would_fetch_by_itself() -> None:
    """By reading pydantic-ai: of those offered, only Gemini's model downloads what it was not told to."""
    assert [provider.name for provider in OTHERS if provider.wants_bytes] == ["google"]

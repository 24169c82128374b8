"""The client is tested against a real HTTP server that answers like an OpenAI-compatible one."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from services.ingestion.adapters.embeddings.configured import ConfiguredEmbedders
from services.ingestion.adapters.embeddings.openai import EmbeddingServer, Endpoint, server_embedder
from services.ingestion.domain.embedding import DimensionsMismatch, EmbeddingRefused, EmbeddingUnavailable

KEY = "sk-secret"


@dataclass
class Stub:
    """`failures`: statuses to answer with first. `shortens`: whether it knows the parameter `dimensions`.

    `most`: texts that it takes in a request; more are answered with `too_many`. `refuses`: a text that it never takes.
    """

    dimensions: int = 8
    shortens: bool = True
    failures: list[int] = field(default_factory=list)
    most: int = 2048
    too_many: tuple[int, Any] = (413, {"error": "batch size > maximum allowed batch size", "error_type": "Validation"})
    refuses: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": f"wrong key, not {KEY}"}}, status=401)
        if self.failures:
            return web.json_response({"error": {"message": "not now"}}, status=self.failures.pop(0))
        if "dimensions" in body and not self.shortens:
            return web.json_response({"error": {"message": "unknown parameter dimensions"}}, status=400)
        if len(body["input"]) > self.most:
            status, answer = self.too_many
            return web.json_response(answer, status=status)
        if self.refuses in body["input"]:
            return web.json_response({"error": {"message": "this text is too long"}}, status=400)
        length = body.get("dimensions", self.dimensions)
        data = [{"index": n, "embedding": self._vector(text, length)} for n, text in enumerate(body["input"])]
        return web.json_response({"data": data[::-1]})

    def _vector(self, text: str, length: int) -> list[float]:
        return [float(ord(each)) for each in text.ljust(length)[:length]]


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    stub = Stub()
    application = web.Application()
    application.router.add_post("/v1/embeddings", stub.embeddings)
    async with TestServer(application) as server:
        stub.base_url = str(server.make_url("/v1"))
        yield stub


@pytest.fixture
async def server(stub: Stub) -> AsyncIterator[EmbeddingServer]:
    async with aiohttp.ClientSession() as session:
        yield EmbeddingServer(Endpoint(stub.base_url, KEY, first_wait=0.001), session)


async def test_vectors_are_of_length_one_and_in_the_order_of_the_texts(server: EmbeddingServer, stub: Stub) -> None:
    embedder = await server_embedder(server, "some-model", None)
    texts = [f"text {n}" for n in range(300)]
    vectors = await embedder.embed(texts)
    assert (embedder.dimensions, embedder.model) == (8, "openai:some-model")
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    expected = np.array([stub._vector(text, 8) for text in texts])
    assert np.allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert sum(len(request["input"]) for request in stub.requests[1:]) == 300
    assert max(len(request["input"]) for request in stub.requests) <= 128


@pytest.mark.parametrize("most", [1, 10, 32])
@pytest.mark.parametrize(
    "too_many",
    [
        (413, {"error": "batch size 60 > maximum allowed batch size 32", "error_type": "Validation"}),
        (422, {"error": "batch size 60 > maximum allowed batch size 32", "error_type": "Validation"}),
        (400, {"error": {"message": "batch size is invalid, it should not be larger than 10.: input.contents"}}),
        (400, {"message": "Too many inputs in request, split into more batches."}),
    ],
)
async def test_a_batch_that_is_refused_is_halved_and_what_fits_is_remembered(
    server: EmbeddingServer, stub: Stub, most: int, too_many: tuple[int, Any]
) -> None:
    stub.most, stub.too_many = most, too_many
    embedder = await server_embedder(server, "m", None)
    texts = [f"text {n}" for n in range(60)]

    vectors = await embedder.embed(texts)

    expected = np.array([stub._vector(text, 8) for text in texts])
    assert np.allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    stub.requests.clear()
    await embedder.embed(texts)
    sizes = [len(request["input"]) for request in stub.requests]
    assert max(sizes) <= most
    assert min(max(sizes), 30) > most // 2
    assert sum(sizes) == 60


async def test_a_text_that_is_refused_says_why_and_makes_no_batch_smaller(server: EmbeddingServer, stub: Stub) -> None:
    stub.refuses = "text 17"
    embedder = await server_embedder(server, "m", None)

    with pytest.raises(EmbeddingRefused, match="this text is too long"):
        await embedder.embed([f"text {n}" for n in range(60)])
    stub.requests.clear()
    await embedder.embed(["another"] * 60)
    assert [len(request["input"]) for request in stub.requests] == [60]


async def test_the_size_of_a_batch_is_a_setting(stub: Stub) -> None:
    embedders = ConfiguredEmbedders({"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": KEY}, most_texts=25)
    embedder = await embedders.embedder("openai", "m", None)
    stub.requests.clear()

    await embedder.embed(["a"] * 60)

    assert sorted(len(request["input"]) for request in stub.requests) == [10, 25, 25]
    await embedders.close()


async def test_dimensions_are_asked_for_only_where_they_differ(server: EmbeddingServer, stub: Stub) -> None:
    await (await server_embedder(server, "m", 8)).embed(["a"])
    assert not any("dimensions" in request for request in stub.requests)
    shorter = await server_embedder(server, "m", 4)
    assert (await shorter.embed(["a"])).shape == (1, 4)


async def test_dimensions_that_the_model_does_not_have_are_refused(server: EmbeddingServer, stub: Stub) -> None:
    stub.shortens = False
    with pytest.raises(DimensionsMismatch, match="8 dimensions, not 4"):
        await server_embedder(server, "m", 4)


async def test_a_model_that_changes_its_dimensions_is_noticed(server: EmbeddingServer, stub: Stub) -> None:
    embedder = await server_embedder(server, "m", None)
    stub.dimensions = 16
    with pytest.raises(DimensionsMismatch):
        await embedder.embed(["a"])


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_may_pass_is_tried_again(server: EmbeddingServer, stub: Stub, status: int) -> None:
    stub.failures = [status, status]
    assert (await server.embed("m", ["a"])).shape == (1, 8)


async def test_what_does_not_pass_is_unavailable(server: EmbeddingServer, stub: Stub) -> None:
    stub.failures = [503] * 10
    with pytest.raises(EmbeddingUnavailable, match="503"):
        await server.embed("m", ["a"])
    assert len(stub.requests) == 4


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with aiohttp.ClientSession() as session:
        nobody = EmbeddingServer(Endpoint("http://127.0.0.1:9/v1", attempts=2, first_wait=0.001), session)
        with capture_logs() as logs, pytest.raises(EmbeddingUnavailable) as told:
            await nobody.embed("m", ["a"])
    # The address and the library's words are for operators.
    assert str(told.value) == "Couldn't connect to the embedding server."
    assert {line["address"] for line in logs} == {"http://127.0.0.1:9/v1/embeddings"}


async def test_a_page_of_a_proxy_is_not_passed_on() -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=403, text="<html>squid.internal: connect() to 10.0.0.7:8000 failed</html>")

    app = web.Application()
    app.router.add_post("/v1/embeddings", refuse)
    async with TestServer(app) as proxy, aiohttp.ClientSession() as session:
        server = EmbeddingServer(Endpoint(str(proxy.make_url("/v1"))), session)
        with pytest.raises(EmbeddingRefused) as told:
            await server.embed("m", ["a"])
    assert str(told.value) == "The embedding server returned status 403."


async def test_a_refused_key_is_not_repeated_in_the_message(stub: Stub) -> None:
    stub.requests.clear()
    async with aiohttp.ClientSession() as session:
        wrong = EmbeddingServer(Endpoint(stub.base_url, "sk-wrong"), session)
        with pytest.raises(EmbeddingRefused) as refused:
            await wrong.embed("m", ["a"])
    assert "sk-wrong" not in str(refused.value)
    assert len(stub.requests) == 1


async def test_a_text_without_content_is_refused(server: EmbeddingServer) -> None:
    embedder = await server_embedder(server, "m", None)
    with pytest.raises(EmbeddingRefused):
        await embedder.embed(["a", "  "])


async def test_a_configured_server_is_asked_for_its_model_once(stub: Stub) -> None:
    embedders = ConfiguredEmbedders({"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": KEY})
    try:
        first = await embedders.embedder("openai", "m", None)
        assert await embedders.embedder("openai", "m", None) is first
        assert len(stub.requests) == 1
    finally:
        await embedders.close()


@pytest.mark.parametrize(
    ("provider", "model", "dimensions"),
    [("openai", "m", None), ("unheard-of", "m", None), ("wordllama", "other", None), ("wordllama", "", 100)],
)
async def test_what_is_not_configured_is_refused(provider: str, model: str, dimensions: int | None) -> None:
    with pytest.raises(EmbeddingRefused):
        await ConfiguredEmbedders({}).embedder(provider, model, dimensions)


async def test_the_usual_model_needs_no_configuration() -> None:
    embedder = await ConfiguredEmbedders({}).embedder("wordllama", "", None)
    assert (embedder.dimensions, embedder.model) == (256, "wordllama:l2_supercat")

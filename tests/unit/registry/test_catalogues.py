"""Catalogues that agents refer to: knowledge bases, models, and tools of the runtime."""

import asyncio
from typing import Any

import orjson

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.service_defaults import UpstreamResponse
from libs.service_defaults.internal_calls import DEADLINE_SECONDS
from services.registry.adapters.internal_api.knowledge_bases import HttpKnowledgeBases
from services.registry.adapters.internal_api.runtime import HttpRuntimeCatalogues
from tests.support.registry import identity


class Ingestion:
    """Has the knowledge bases ``existing``, fails inside for ``broken``, or does not answer at all."""

    def __init__(self, *existing: str, broken: str = "", up: bool = True) -> None:
        self._paths = {f"/internal/knowledge-bases/{name}" for name in existing}
        self._broken = broken
        self._up = up
        self.calls = 0
        self.at_once = 0
        self.most_at_once = 0

    def installed(self, owner: str) -> bool:
        return owner == "ingestion"

    async def get(self, owner: str, path: str, caller: Identity, *, deadline: float) -> UpstreamResponse:
        """Bounds the wait, so that a caller of the registry waits no longer than any call takes."""
        assert deadline < DEADLINE_SECONDS / 2
        assert owner == "ingestion"
        self.calls += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if not self._up:
            raise ServiceUnavailable("down")
        if self._broken and path.endswith(self._broken):
            return UpstreamResponse(500, b"", "")
        return UpstreamResponse(200 if path in self._paths else 404, b"{}", "application/json")


def knowledge_bases(ingestion: Ingestion) -> HttpKnowledgeBases:
    return HttpKnowledgeBases(ingestion)  # type: ignore[arg-type]


async def test_what_exists_what_does_not_and_what_nobody_knows() -> None:
    there, gone, broken = new_id(), new_id(), new_id()
    asked = knowledge_bases(Ingestion(there, broken=broken))

    found = await asked.check(identity(), [there, gone, broken, "../agents", ".."])

    assert asked.available
    assert found.missing == {gone, "../agents", ".."}
    assert found.unchecked == {broken}


async def test_a_name_that_is_no_id_is_never_asked_for() -> None:
    ingestion = Ingestion()

    await knowledge_bases(ingestion).check(identity(), ["../../internal/agents", ""])

    assert ingestion.calls == 0


async def test_only_a_few_are_asked_for_at_once() -> None:
    ids = [new_id() for _ in range(40)]
    ingestion = Ingestion(*ids)

    found = await knowledge_bases(ingestion).check(identity(), ids)

    assert found.missing == frozenset()
    assert 1 < ingestion.most_at_once <= 8


async def test_one_silence_is_enough() -> None:
    ids = [new_id() for _ in range(40)]
    ingestion = Ingestion(up=False)

    found = await knowledge_bases(ingestion).check(identity(), ids)

    assert found.unchecked == set(ids)
    assert ingestion.calls <= 8


MODELS = {
    "providers": [
        {
            "provider": "openai",
            "configured": True,
            "any_name": True,
            "models": [{"name": "openai:gpt-4o", "capabilities": {"vision": True, "tools": True}}],
        }
    ]
}
TOOLS = {"tools": [{"name": "calculator", "description": "…"}]}


class Runtime:
    """Answers like the runtime's internal API, or not at all."""

    def __init__(self) -> None:
        self.replies: dict[str, Any] = {"/internal/models": MODELS, "/internal/tools": TOOLS}
        self.status = 200
        self.up = True
        self.calls = 0

    async def get(self, owner: str, path: str, caller: Identity, *, deadline: float) -> UpstreamResponse:
        """Bounds the wait, so that a caller of the registry waits no longer than any call takes."""
        assert deadline < DEADLINE_SECONDS / 2
        assert owner == "runtime"
        self.calls += 1
        await asyncio.sleep(0)
        if not self.up:
            raise ServiceUnavailable("down")
        return UpstreamResponse(self.status, orjson.dumps(self.replies[path]), "application/json")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def catalogues(runtime: Runtime, clock: Clock) -> HttpRuntimeCatalogues:
    return HttpRuntimeCatalogues(runtime, clock)  # type: ignore[arg-type]


async def test_what_the_runtime_offers_is_remembered_for_half_a_minute() -> None:
    runtime, clock = Runtime(), Clock()
    known = catalogues(runtime, clock)

    first = await known.current(identity())
    runtime.replies["/internal/tools"] = {"tools": []}
    clock.now += 29
    second = await known.current(identity("user-2", "company-2"))
    clock.now += 2
    third = await known.current(identity())

    assert first.tools == ("calculator",)
    assert first.providers["openai"].models == ("openai:gpt-4o",)
    assert second is first
    assert third.tools == ()


async def test_many_at_once_ask_once() -> None:
    runtime = Runtime()
    known = catalogues(runtime, Clock())

    await asyncio.gather(*(known.current(identity()) for _ in range(20)))

    assert runtime.calls == 2


async def test_silence_is_remembered_shortly_and_then_asked_again() -> None:
    runtime, clock = Runtime(), Clock()
    known = catalogues(runtime, clock)
    runtime.up = False

    assert await known.current(identity()) is None
    runtime.up = True
    assert await known.current(identity()) is None
    clock.now += 2.1

    assert await known.current(identity()) is not None


async def test_an_answer_that_cannot_be_read_is_no_answer() -> None:
    runtime, clock = Runtime(), Clock()
    runtime.replies["/internal/models"] = {"surprise": True}
    refusing = Runtime()
    refusing.status = 500

    assert await catalogues(runtime, clock).current(identity()) is None
    assert await catalogues(refusing, clock).current(identity()) is None

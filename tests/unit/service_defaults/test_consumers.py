"""When a service joins its groups."""

import asyncio
from typing import cast

import pytest

from libs.eventing import CommandRouter, IdentitySigner, KafkaBus
from libs.service_defaults._consumers import Consumers, DeadMemberReaper
from libs.service_defaults._health import Readiness
from tests.support import sample_owner
from tests.support.command_records import SIGNING_KEY
from tests.support.memory_bus import MemoryBus
from tests.support.sample_owner import TakeNote
from tests.support.waiting import elapse, until

pytestmark = pytest.mark.virtual_time


class _NoReaper:
    def watch(self, group: str) -> None: ...


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def consumers(readiness: Readiness) -> Consumers:
    bus = MemoryBus()
    reaper = cast(DeadMemberReaper, _NoReaper())
    return Consumers("notes", cast(KafkaBus, bus), bus.producer(), readiness, reaper)


@pytest.fixture
def router() -> CommandRouter:
    router = CommandRouter(None, None, IdentitySigner(SIGNING_KEY))  # type: ignore[arg-type]
    router.handle(TakeNote, sample_owner.take_note)
    return router


async def joined(readiness: Readiness) -> bool:
    return (await readiness.results())["consumer notes-commands"] == "ok"


async def test_a_group_is_joined_when_what_it_needs_is_there(
    consumers: Consumers, router: CommandRouter, readiness: Readiness
) -> None:
    known = asyncio.Event()

    async def wait() -> None:
        await known.wait()

    consumers.add("commands", router, after=wait)
    consumers.start(routers=True, roles=None)
    await elapse(3600)
    assert not await joined(readiness)
    known.set()
    await until(lambda: joined(readiness))
    await consumers.stop(10)
    assert all(task.done() for task in consumers.tasks[:1])


async def test_a_stop_does_not_wait_for_what_a_group_needs(consumers: Consumers, router: CommandRouter) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    consumers.add("commands", router, after=never)
    consumers.start(routers=True, roles=None)
    await elapse(1)
    stopped = asyncio.get_running_loop().time()
    await consumers.stop(10)
    assert asyncio.get_running_loop().time() - stopped < 1
    assert consumers.tasks[0].done()

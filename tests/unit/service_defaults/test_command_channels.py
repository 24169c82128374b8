"""Command channels between a caller and processes, on this machine."""

import asyncio
from collections import Counter
from typing import Any

import aiohttp
import pytest

from deploy.local.ports import choose_free
from libs.contracts.envelope import Envelope
from libs.eventing import IdentitySigner
from libs.retry import RetryPolicy
from libs.service_defaults import _command_channel_route as route
from libs.service_defaults import command_channels
from tests.support.command_channels import STEP, Caller, Process, command, event, own_headers
from tests.support.command_records import ALICE
from tests.support.sample_owner import NoteTaken
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_channels, "_RECONNECT", RetryPolicy(first=0.02, longest=0.1))
    monkeypatch.setattr(command_channels, "_RESOLVE_SECONDS", 0.1)
    monkeypatch.setattr(command_channels, "_CONNECT_SECONDS", 30.0)
    monkeypatch.setattr(command_channels, "_SEND_SECONDS", 30.0)


class Gate:
    """Holds commands until it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, process: Process, envelope: Envelope) -> None:
        await self.opened.wait()
        process.publish(event(envelope))


async def test_events_come_back_in_order_as_they_are_made() -> None:
    def in_steps(process: Process, envelope: Envelope) -> None:
        process.publish(event(envelope, STEP), b"1")
        process.publish(event(envelope, STEP), b"")
        process.publish(event(envelope), b"3")

    async with Process(in_steps).serving() as process, Caller(process.url).connected() as caller:
        given = command("n")
        assert await caller.submit(given)
        await until(lambda: len(caller.events) == 3)
    assert [(each.envelope.type, each.payload) for each in caller.events] == [
        (STEP, b"1"),
        (STEP, b""),
        (NoteTaken.TYPE, b"3"),
    ]
    assert caller.returned == []
    assert not process.outbox.listeners.has_any(given.envelope.id), "its end was told"


async def test_commands_of_a_subject_follow_each_other_and_subjects_do_not_wait() -> None:
    gate = Gate()
    async with Process(gate).serving() as process, Caller(process.url).connected() as caller:
        first, second, other = command("a"), command("a"), command("b")
        for each in (first, second, other):
            assert await caller.submit(each)
        await until(lambda: len(process.begun) == 2)
        assert process.begun == [first.envelope.id, other.envelope.id]
        gate.opened.set()
        await until(lambda: len(caller.ends()) == 3)
        assert process.begun[-1] == second.envelope.id


@pytest.mark.rule(26)
async def test_one_that_fails_is_returned_with_those_of_its_subject_behind_it() -> None:
    gate = asyncio.Event()

    async def fail(_process: Process, _envelope: Envelope) -> None:
        await gate.wait()
        raise RuntimeError("the database is away")

    async with Process(fail).serving() as process, Caller(process.url).connected() as caller:
        given = [command("a"), command("a"), command("a"), command("b")]
        for each in given:
            assert await caller.submit(each)
        await until(lambda: len(process.begun) == 2)
        gate.set()
        await until(lambda: len(caller.returned) == 4)
        assert [one for one in caller.returned if one != given[3].envelope.id] == [
            each.envelope.id for each in given[:3]
        ]
        assert len(process.begun) == 2, "what waited was not tried"
        assert not any(process.outbox.listeners.has_any(each.envelope.id) for each in given)


async def test_what_the_process_does_not_handle_or_has_no_room_for_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "_MOST_IN_WORK", 2)
    gate = Gate()
    async with Process(gate).serving() as process, Caller(process.url).connected() as caller:
        unknown, taken = command("a", command_type="aes.notes.burn_note.v1"), [command("a"), command("a")]
        too_many = command("b")
        for each in (unknown, *taken, too_many):
            assert await caller.submit(each)
        await until(lambda: len(caller.returned) == 2)
        assert caller.returned == [unknown.envelope.id, too_many.envelope.id]
        gate.opened.set()
        await until(lambda: len(caller.ends()) == 2)


async def test_what_is_too_large_is_not_handed_over() -> None:
    async with Process().serving() as process, Caller(process.url).connected() as caller:
        assert not await caller.submit(command("a", size=256 * 1024))
        assert await caller.submit(command("a", size=250 * 1024))
        await until(lambda: len(caller.ends()) == 1)


async def test_one_that_is_taken_without_an_event_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a turn that the process has from an earlier delivery. Its events come later, by the channel too."""
    monkeypatch.setattr(command_channels, "_PING_SECONDS", 0.1)
    monkeypatch.setattr(command_channels, "_ANSWER_SECONDS", 0.2)
    async with Process(lambda *_: None).serving() as process, Caller(process.url).connected() as caller:
        given = command("a")
        assert await caller.submit(given)
        (channel,) = caller.channels._channels.values()
        await until(lambda: not channel._unheard)
        process.publish(event(given.envelope))
        await until(lambda: caller.ends() == [given.envelope.id])
    assert caller.returned == []


async def test_a_slow_command_of_a_process_that_answers_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_channels, "_PING_SECONDS", 0.3)
    monkeypatch.setattr(command_channels, "_ANSWER_SECONDS", 30.0)
    gate = Gate()
    async with Process(gate).serving() as process, Caller(process.url).connected() as caller:
        assert await caller.submit(command("a"))
        (channel,) = caller.channels._channels.values()
        opened = channel._heard_at
        await until(lambda: channel._heard_at > opened)
        assert (caller.returned, caller.events) == ([], []), "it was asked for a sign of life, and gave one"
        gate.opened.set()
        await until(lambda: len(caller.ends()) == 1)


async def test_commands_of_a_process_that_falls_silent_go_to_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_channels, "_PING_SECONDS", 0.1)
    monkeypatch.setattr(command_channels, "_ANSWER_SECONDS", 0.2)
    async with (
        Process().serving() as process,
        TcpProxy(port=choose_free(), target_port=process.port) as network,
        Caller(f"http://127.0.0.1:{network.port}").connected() as caller,
    ):
        network.freeze()
        lost = [command("a"), command("b")]
        for each in lost:
            assert await caller.submit(each)
        await until(lambda: len(caller.returned) == 2)
        assert not await caller.submit(command("a")), "nothing is given to it meanwhile"
        await network.restore()
        await until(lambda: len(caller.ends()) == 2)
        assert await caller.submit(command("a")), "it has answered"


async def test_a_caller_that_was_held_up_itself_reads_before_it_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_channels, "_PING_SECONDS", 600.0)
    async with Process(Gate()).serving() as process, Caller(process.url).connected() as caller:
        given = command("a")
        assert await caller.submit(given)
        (channel,) = caller.channels._channels.values()
        channel._unheard, channel._heard_at = {given.envelope.id: (-1000.0, given)}, -1000.0
        channel._is_asked = True
        channel._check(asyncio.get_running_loop().time() - 10)
        assert (caller.returned, channel.usable) == ([], True)
        channel._check(asyncio.get_running_loop().time())
        assert (caller.returned, channel.usable) == ([given.envelope.id], False)


@pytest.mark.rule(2)
async def test_commands_of_a_connection_that_is_lost_go_to_the_bus_and_the_next_one_is_used() -> None:
    gate = Gate()
    async with (
        Process(gate).serving() as process,
        TcpProxy(port=choose_free(), target_port=process.port) as network,
        Caller(f"http://127.0.0.1:{network.port}").connected() as caller,
    ):
        given = [command("a"), command("a")]
        for each in given:
            assert await caller.submit(each)
        await until(lambda: len(process.begun) == 1)
        await network.cut()
        await until(lambda: len(caller.returned) == 2)
        assert caller.open == 0
        assert not await caller.submit(command("a"))
        gate.opened.set()
        await until(lambda: len(process.begun) == 2)
        await network.restore()
        await until(lambda: caller.open == 1)
        assert caller.events == [], "what was taken before is told by the bus alone"
        assert not any(process.outbox.listeners.has_any(each.envelope.id) for each in given)
        assert await caller.submit(command("a"))
        await until(lambda: len(caller.ends()) == 1)


async def test_a_process_that_leaves_returns_what_has_not_begun_and_tells_the_rest() -> None:
    gate = Gate()
    async with Process(gate).serving() as process, Caller(process.url).connected() as caller:
        begun, waiting = command("a"), command("a")
        for each in (begun, waiting):
            assert await caller.submit(each)
        await until(lambda: len(process.begun) == 1)
        process.takes = False
        leaving = asyncio.create_task(process.route.leave())
        await until(lambda: caller.returned == [waiting.envelope.id])
        assert not await caller.submit(command("b")), "it said so before anything was handed over"
        assert not leaving.done()
        gate.opened.set()
        await leaving
        await until(lambda: caller.ends() == [begun.envelope.id])


async def _settled() -> None:
    """All that was to be done at once is done."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_process_that_leaves_waits_for_commands_whose_caller_has_gone() -> None:
    gate = Gate()
    async with Process(gate).serving() as process:
        async with Caller(process.url).connected() as caller:
            given = command("a")
            assert await caller.submit(given)
            await until(lambda: process.begun == [given.envelope.id])
        await until(lambda: not process.outbox.listeners.has_any(given.envelope.id))
        # The end of the connection has been noticed, and is over by now.
        await _settled()
        leaving = asyncio.create_task(process.route.leave())
        await _settled()
        assert not leaving.done()
        gate.opened.set()
        await leaving


async def test_what_reaches_a_process_that_leaves_is_returned() -> None:
    async with Process().serving() as process, Caller(process.url).connected() as caller:
        process.takes = False
        given = command("a")
        assert await caller.submit(given)
        await until(lambda: caller.returned == [given.envelope.id])
        assert not await caller.submit(command("a"))
        assert process.begun == []


async def test_one_command_by_two_callers_is_told_to_both() -> None:
    gate = Gate()
    async with (
        Process(gate).serving() as process,
        Caller(process.url).connected() as one,
        Caller(process.url).connected() as two,
    ):
        given = command("a")
        assert await one.submit(given)
        assert await two.submit(given)
        await until(lambda: len(process.begun) == 2)
        gate.opened.set()
        await until(lambda: given.envelope.id in one.ends() and given.envelope.id in two.ends())


@pytest.mark.rule(15)
@pytest.mark.parametrize("who", ["nobody", "a stranger", "a caller"])
async def test_only_services_open_channels(who: str) -> None:
    headers = {
        "nobody": {},
        "a stranger": own_headers(signer=IdentitySigner("x" * 40)),
        "a caller": own_headers(ALICE),
    }[who]
    async with Process().serving() as process, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await session.ws_connect(process.url + route.CHANNEL_PATH, headers=headers)
        assert refusal.value.status == 403
        async with session.ws_connect(process.url + route.CHANNEL_PATH, headers=own_headers()):
            pass


async def test_a_process_that_takes_no_commands_has_no_channels() -> None:
    process = Process(takes=False)
    async with process.serving(), Caller(process.url).connected(0) as caller:
        assert not await caller.submit(command("a"))
        process.takes = True
        await until(lambda: caller.open == 1)


@pytest.mark.parametrize("body", [b"", b"{}\n{}", b"[]\n{}", b"nonsense"])
async def test_what_is_no_command_ends_the_channel(body: bytes) -> None:
    async with Process().serving() as process, aiohttp.ClientSession() as session:
        async with session.ws_connect(process.url + route.CHANNEL_PATH, headers=own_headers()) as connection:
            await connection.send_bytes(body)
            assert (await connection.receive()).type is aiohttp.WSMsgType.CLOSE
            assert connection.close_code == 1003
        assert process.begun == []


async def test_a_message_that_the_caller_does_not_understand_ends_the_channel_and_another_one_is_opened() -> None:
    broken = True

    def garble(process: Process, envelope: Envelope) -> None:
        nonlocal broken
        (channel,) = process.route._channels
        if broken:
            channel._put(b"nonsense")
        else:
            process.publish(event(envelope))
        broken = False

    async with Process(garble).serving() as process, Caller(process.url).connected() as caller:
        given = command("a")
        assert await caller.submit(given)
        await until(lambda: caller.returned == [given.envelope.id])
        await until(lambda: caller.open == 1)
        assert await caller.submit(given)
        await until(lambda: caller.ends() == [given.envelope.id])


async def test_a_caller_that_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "_MOST_UNSENT_BYTES", 1000)
    async with Process(lambda *_: None).serving() as process, Caller(process.url).connected() as caller:
        given = command("a")
        assert await caller.submit(given)
        await until(lambda: process.outbox.listeners.has_any(given.envelope.id))
        process.publish(event(given.envelope, STEP), b"x" * 2000)
        await until(lambda: not process.outbox.listeners.has_any(given.envelope.id))
        await until(lambda: len(process.route._channels) == 1 and caller.open == 1)


async def test_turns_that_wait_are_listened_to_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "_MOST_HEARD", 2)

    def wait(process: Process, envelope: Envelope) -> None:
        process.publish(event(envelope, STEP))

    async with Process(wait).serving() as process, Caller(process.url).connected() as caller:
        given = [command(subject) for subject in "abc"]
        for each in given:
            assert await caller.submit(each)
        await until(lambda: len(process.begun) == 3)
        assert [process.outbox.listeners.has_any(each.envelope.id) for each in given] == [False, True, True]
        assert len(process.outbox.listeners._by_command) == 2
    await until(lambda: not process.outbox.listeners._by_command)


async def test_a_caller_that_is_cancelled_leaves_the_command_to_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is carried out, or goes to the bus as any other one: it is not lost in between."""
    async with Process(Gate()).serving() as process, Caller(process.url).connected() as caller:
        (channel,) = caller.channels._channels.values()
        assert channel._socket is not None

        async def stuck(_body: bytes) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(channel._socket, "send_bytes", stuck)
        given = command("a")
        handing = asyncio.create_task(caller.submit(given))
        await until(lambda: given.envelope.id in channel._unheard)
        handing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handing
        assert given.envelope.id in channel._unheard
        assert process.begun == []
    assert caller.returned == [given.envelope.id]


async def test_what_cannot_be_written_is_left_to_the_bus_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Process().serving() as process, Caller(process.url).connected() as caller:
        (channel,) = caller.channels._channels.values()
        assert channel._socket is not None

        async def closing(_body: bytes) -> None:
            raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

        monkeypatch.setattr(channel._socket, "send_bytes", closing)
        assert not await caller.submit(command("a"))
        assert channel._unheard == {}
    assert caller.returned == []


async def test_a_name_stands_for_processes_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    named, asked = ["127.0.0.1"], 0

    async def resolve(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        nonlocal asked
        assert host == "workers.test"
        asked += 1
        if not named:
            raise OSError("the name server is away")
        return [(None, None, None, "", (address, port)) for address in named]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    one, two = Process(), Process(port=choose_free())
    one.port = two.port
    async with one.serving("127.0.0.1"):
        caller = Caller(f"http://workers.test:{one.port}")
        async with caller.connected():
            async with two.serving("127.0.0.2"):
                named.append("127.0.0.2")
                await until(lambda: caller.open == 2)
                given = [command(f"subject {number}") for number in range(100)]
                for each in given:
                    assert await caller.submit(each)
                await until(lambda: len(caller.ends()) == 100)
                assert min(len(one.begun), len(two.begun)) > 20
                named.clear()
                seen = asked
                await until(lambda: asked > seen + 2)
                assert caller.open == 2, "what is open stays while the name cannot be asked for"
            named.append("127.0.0.1")
            await until(lambda: len(caller.channels._channels) == 1)
            again = [command(each.envelope.subject) for each in given]
            for each in again:
                assert await caller.submit(each)
            await until(lambda: len(caller.ends()) == 200)


def test_subjects_are_shared_evenly_and_only_those_of_a_process_that_goes_move() -> None:
    urls = [f"http://10.0.0.{number}:8000" for number in range(1, 6)]
    subjects = [f"019abcde-{number:04d}" for number in range(5000)]

    def shares(among: list[str]) -> dict[str, str]:
        return {one: max(among, key=lambda url: command_channels._weight(url, one)) for one in subjects}

    before, after = shares(urls), shares(urls[:-1])
    assert all(800 < count < 1200 for count in Counter(before.values()).values())
    assert all(after[one] == before[one] for one in subjects if before[one] != urls[-1])


async def test_addresses_are_taken_as_they_are() -> None:
    for url in ("http://10.0.0.1:8000", "http://[::1]:8000", "https://runtime.example"):
        assert await command_channels._resolved(url) == [url]
    caller = Caller(" http://10.0.0.1:8000/", "", " ")
    assert caller.channels._urls == [("notes", "http://10.0.0.1:8000")]

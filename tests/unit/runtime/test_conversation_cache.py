"""Reads and memory of conversations."""

import asyncio

import pytest

from services.runtime.domain.agents import TurnLost
from services.runtime.domain.conversation import AssistantMessage, Message, TextPart, UserMessage
from services.runtime.domain.ports import SessionAgent
from services.runtime.use_cases.run_turn import ConversationCache
from tests.support.runtime_turns import MemoryConversations, claimed_turn


def ask(text: str) -> UserMessage:
    return UserMessage((TextPart(text),))


def exchange(text: str) -> list[Message]:
    return [ask(text), AssistantMessage(f"re: {text}")]


async def test_only_newer_messages_are_read_and_an_older_turn_gets_no_later_ones() -> None:
    store = MemoryConversations({0: exchange("a"), 1: exchange("b"), 2: exchange("c")})
    cache = ConversationCache(store)
    await cache.context(claimed_turn(position=1), ask("b"))
    context = await cache.context(claimed_turn(position=3), ask("d"))
    assert store.reads == [(-1, 0), (0, 2)]
    assert context.history == (*exchange("a"), *exchange("b"), *exchange("c"))
    context = await cache.context(claimed_turn(position=1), ask("b"))
    assert context.history == tuple(exchange("a"))


async def test_a_first_turn_and_messages_of_an_ended_turn_need_no_reading() -> None:
    store = MemoryConversations()
    cache = ConversationCache(store)
    first = claimed_turn(position=0)
    context = await cache.context(first, ask("a"))
    assert (context.history, context.question) == ((), ask("a"))
    cache.remember(first, exchange("a"))
    context = await cache.context(claimed_turn(position=1), ask("b"))
    assert (context.history, store.reads) == (tuple(exchange("a")), [])


async def test_a_missing_question_is_read() -> None:
    store = MemoryConversations({0: exchange("a"), 1: [ask("b")]})
    context = await ConversationCache(store).context(claimed_turn(position=1), None)
    assert (context.question, context.history) == (ask("b"), tuple(exchange("a")))


async def test_the_least_used_conversations_are_forgotten() -> None:
    store = MemoryConversations({0: [ask("x" * 5000)]})
    cache = ConversationCache(store, capacity=12_000)
    for name in ("one", "two", "three", "one"):
        await cache.context(claimed_turn(session_id=name, position=1), ask("a"))
    assert len(store.reads) == 4
    await cache.context(claimed_turn(session_id="one", position=1), ask("a"))
    assert len(store.reads) == 4


async def test_a_conversation_that_several_executions_read_at_once_counts_once() -> None:
    class Slow(MemoryConversations):
        async def agent(self, session_id: str, /) -> SessionAgent | None:
            await asyncio.sleep(0)
            return await super().agent(session_id)

    store = Slow({0: exchange("a")})
    cache = ConversationCache(store, capacity=5_000)
    await asyncio.gather(*(cache.context(claimed_turn(session_id="one", position=1), ask("b")) for _ in range(5)))
    reads = len(store.reads)
    await cache.context(claimed_turn(session_id="two", position=1), ask("b"))
    await cache.context(claimed_turn(session_id="one", position=1), ask("b"))
    assert len(store.reads) == reads + 1


async def test_a_deleted_session_is_told_from_an_empty_one() -> None:
    class Gone(MemoryConversations):
        async def agent(self, _session_id: str, /) -> None:
            return None

    with pytest.raises(TurnLost):
        await ConversationCache(Gone()).context(claimed_turn(), ask("a"))


async def test_a_forgotten_conversation_is_read_again() -> None:
    store = MemoryConversations({0: exchange("a")})
    cache = ConversationCache(store)
    await cache.context(claimed_turn(position=1), ask("b"))
    cache.forget("session")
    cache.forget("another")
    context = await cache.context(claimed_turn(position=1), ask("b"))
    assert (context.history, store.reads) == (tuple(exchange("a")), [(-1, 0), (-1, 0)])


async def test_a_read_that_another_one_has_overtaken_goes_on_to_its_end() -> None:
    """Two executions read at once, and the one that reads less far ends first."""

    class Held(MemoryConversations):
        def __init__(self, said: dict[int, list[Message]]) -> None:
            super().__init__(said)
            self.gate = asyncio.Event()

        async def messages(self, session_id: str, after: int, through: int) -> list[tuple[int, Message]]:
            found = await super().messages(session_id, after, through)
            if (after, through) == (-1, 1):
                await self.gate.wait()
            return found

    store = Held({0: exchange("a"), 1: exchange("b")})
    cache = ConversationCache(store)
    late = asyncio.create_task(cache.context(claimed_turn(position=2), ask("c")))
    await asyncio.sleep(0)
    await cache.context(claimed_turn(position=1), ask("b"))
    store.gate.set()
    assert (await late).history == (*exchange("a"), *exchange("b"))
    assert store.reads == [(-1, 1), (-1, 0), (0, 1)]

"""Conversations in memory: messages never change, so only newer ones are read."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.runtime.domain.conversation import Message, UserMessage
from services.runtime.domain.ports import ConversationStore, SessionAgent
from services.runtime.domain.turns import ClaimedTurn

_IMAGE_CHARACTERS = 200


@dataclass(slots=True)
class _Conversation:
    """``through``: the position of the last turn whose messages are here."""

    agent: SessionAgent
    messages: list[Message] = field(default_factory=list)
    through: int = -1
    size: int = 0

    def extend(self, messages: Sequence[Message], through: int) -> None:
        self.messages.extend(messages)
        self.size += sum(_size(message) for message in messages)
        self.through = through


@dataclass(frozen=True, slots=True)
class TurnContext:
    agent: SessionAgent
    history: Sequence[Message]
    question: UserMessage


class SessionGone(Exception):
    """The session has been deleted."""


class ConversationCache:
    """The most recently used conversations, up to ``capacity`` characters in all."""

    def __init__(self, store: ConversationStore, *, capacity: int = 64_000_000) -> None:
        self._store = store
        self._capacity = capacity
        self._known: OrderedDict[str, _Conversation] = OrderedDict()
        self._size = 0

    async def context(self, turn: ClaimedTurn, question: UserMessage | None) -> TurnContext:
        """The agent's input. A ``question`` that is None is read from the history."""
        conversation = await self._conversation(turn.session_id)
        if conversation.through < turn.position - 1:
            await self._read(turn, conversation, turn.position - 1)
        if conversation.through >= turn.position:
            conversation = _Conversation(conversation.agent)
            await self._read(turn, conversation, turn.position - 1)
        if question is None:
            question = await self._question(turn)
        return TurnContext(conversation.agent, tuple(conversation.messages), question)

    def remember(self, turn: ClaimedTurn, said: Sequence[Message]) -> None:
        """Adds the messages of a turn that has ended; none when it failed."""
        conversation = self._known.get(turn.session_id)
        if conversation is not None and conversation.through == turn.position - 1:
            before = conversation.size
            conversation.extend(said, turn.position)
            self._grow(conversation.size - before)

    async def _conversation(self, session_id: str) -> _Conversation:
        known = self._known.get(session_id)
        if known is None:
            agent = await self._store.agent(session_id)
            if agent is None:
                raise SessionGone(session_id)
            known = self._known.setdefault(session_id, _Conversation(agent, size=1000))
            self._grow(known.size)
        self._known.move_to_end(session_id)
        return known

    async def _read(self, turn: ClaimedTurn, conversation: _Conversation, through: int) -> None:
        if through < 0:
            return
        after = conversation.through
        rows = await self._store.messages(turn.session_id, after, through)
        if conversation.through != after:  # a stale execution of the same session has read them too
            return
        before = conversation.size
        conversation.extend([message for _, message in rows], through)
        if self._known.get(turn.session_id) is conversation:
            self._grow(conversation.size - before)

    async def _question(self, turn: ClaimedTurn) -> UserMessage:
        rows = await self._store.messages(turn.session_id, turn.position - 1, turn.position)
        for _, message in rows:
            if isinstance(message, UserMessage):
                return message
        raise SessionGone(turn.session_id)

    def _grow(self, by: int) -> None:
        self._size += by
        while self._size > self._capacity and len(self._known) > 1:
            _, forgotten = self._known.popitem(last=False)
            self._size -= forgotten.size


def _size(message: Message) -> int:
    if isinstance(message, UserMessage):
        return len(message.text) + _IMAGE_CHARACTERS * len(message.parts)
    return len(getattr(message, "text", "")) + _IMAGE_CHARACTERS

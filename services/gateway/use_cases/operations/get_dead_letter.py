"""Shows one dead letter with its payload."""

import asyncio
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import NotFound
from libs.contracts.identity import Identity
from libs.eventing import dead_letter_topic_named
from services.gateway.domain.operations import OperationsView, no_such_letter, parse_letter_id, view_of
from services.gateway.use_cases.operations.kafka_answers import answered_within
from services.gateway.use_cases.operations.list_dead_letters import ListedLetter
from services.gateway.use_cases.operations.ports import DeadLetterBox, DeadLetterSession

_LIMIT_SECONDS: Final = 12.0


@dataclass(frozen=True, slots=True)
class GetDeadLetter:
    box: DeadLetterBox
    permits: asyncio.Semaphore

    async def __call__(self, reader: Identity, letter_id: str) -> ListedLetter:
        """Raises ``PermissionDenied``, ``NotFound`` and ``ServiceUnavailable``."""
        view = view_of(reader)
        # What is no id costs Kafka nothing.
        parse_letter_id(letter_id)
        async with answered_within(_LIMIT_SECONDS), self.permits, self.box.open() as session:
            return await find_letter(session, view, letter_id)


async def find_letter(session: DeadLetterSession, view: OperationsView, letter_id: str) -> ListedLetter:
    """Raises ``NotFound``, with the same words for a letter that the caller may not see."""
    name, offset = parse_letter_id(letter_id)
    try:
        topic = dead_letter_topic_named(name)
        content = (await session.contents([topic])).get(topic)
        # Of a topic that is not there, reading would wait for it.
        letter = None if content is None else await session.message(topic, offset)
    except NotFound:
        raise no_such_letter() from None
    if content is None or letter is None or not view.shows(letter.company_id):
        raise no_such_letter()
    return ListedLetter(topic, letter, offset in content.replayed)

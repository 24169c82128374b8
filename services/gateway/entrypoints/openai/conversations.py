"""Serves ``/openai/v1/conversations``: sessions that have no agent until the first response specifies one."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final

from fastapi import Depends, Security
from pydantic import Field
from starlette.responses import Response

from libs.contracts.errors import NotFound, ValidationFailed
from libs.contracts.identity import Scope
from libs.contracts.models import StrictModel
from libs.contracts.resources.messages import HistoryMessage, Message
from libs.contracts.resources.sessions import NO_AGENT, Session
from libs.contracts.timestamps import parse_time
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import value_answer
from services.gateway.entrypoints.door.application import DoorDep, protocol_router, turn_headers
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.image_bodies import ParsedBodyWithImages
from services.gateway.entrypoints.door.queries import Unfiltered
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.entrypoints.openai.conventions import PREFIX, deleted, refuse
from services.gateway.entrypoints.openai.input_items import InputItem, is_instruction, messages_of
from services.gateway.entrypoints.openai.pages import Cursor, page, unknown_cursor
from services.gateway.entrypoints.openai.response_items import Json, history_items
from services.gateway.entrypoints.openai.response_request import Metadata
from services.gateway.entrypoints.openai.response_turns import session_of
from services.gateway.use_cases.sessions import Sessions

router: Final = protocol_router(f"{PREFIX}/conversations")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.SESSIONS_READ, Scope.SESSIONS_WRITE])]
_PAGE: Final = 100
_UNTIL_THEN: Final = "builtin:extractive"
"""The model of a conversation without an agent."""


class CreateConversation(StrictModel):
    items: Annotated[list[InputItem], Field(max_length=20)] | None = None
    metadata: Metadata | None = None


class ChangeConversation(StrictModel):
    metadata: Metadata | None


class CreateItems(StrictModel):
    items: Annotated[list[InputItem], Field(min_length=1, max_length=20)]


NewConversation = Annotated[CreateConversation, Depends(ParsedBodyWithImages(CreateConversation, required=False))]
ConversationChanges = Annotated[ChangeConversation, Depends(ParsedBody(ChangeConversation))]
NewItems = Annotated[CreateItems, Depends(ParsedBodyWithImages(CreateItems))]


@router.post("")
async def create_conversation(caller: Writer, body: NewConversation, write: IdempotentWrite, door: DoorDep) -> Response:
    without_agent = {
        "config_hash": NO_AGENT,
        "messages": _history(body.items or []),
        "metadata": body.metadata or {},
    }
    beginning = (await door.agents.beginning_of(caller.identity, _UNTIL_THEN)).model_copy(update=without_agent)
    session_id = await door.sessions.begin(write, beginning)
    return _answer(await door.sessions.read(caller.identity, session_id))


@router.get("/{conversation_id}")
async def get_conversation(conversation_id: str, caller: Reader, door: DoorDep) -> Response:
    return _answer(await door.sessions.read(caller.identity, session_of(conversation_id)))


@router.post("/{conversation_id}")
async def change_conversation(
    conversation_id: str, caller: Writer, body: ConversationChanges, write: IdempotentWrite, door: DoorDep
) -> Response:
    session_id = session_of(conversation_id)
    await door.sessions.change(write, session_id, metadata=body.metadata or {})
    return _answer(await door.sessions.read(caller.identity, session_id))


@router.delete("/{conversation_id}")
async def delete_conversation(conversation_id: str, _: Writer, write: IdempotentWrite, door: DoorDep) -> Response:
    await door.sessions.delete(write, session_of(conversation_id))
    return deleted(conversation_id, "conversation.deleted")


@router.get("/{conversation_id}/items")
async def list_items(conversation_id: str, cursor: Cursor, caller: Reader, door: DoorDep) -> Response:
    found: list[Json] = []
    is_after = cursor.after is None
    async for item in _items(door.sessions, caller, session_of(conversation_id), newest_first=cursor.newest_first):
        if is_after:
            found.append(item)
        is_after = is_after or item["id"] == cursor.after
        if len(found) > cursor.limit:
            break
    if not is_after:
        raise unknown_cursor()
    return page(found[: cursor.limit], has_more=len(found) > cursor.limit)


@router.get("/{conversation_id}/items/{item_id}")
async def get_item(conversation_id: str, item_id: str, caller: Reader, door: DoorDep) -> Response:
    async for item in _items(door.sessions, caller, session_of(conversation_id), newest_first=True):
        if item["id"] == item_id:
            return value_answer(item)
    raise NotFound("This conversation has no item with this ID.")


@router.post("/{conversation_id}/items")
async def create_items(
    conversation_id: str, _: Writer, body: NewItems, __: Unfiltered, write: IdempotentWrite, door: DoorDep
) -> Response:
    """Adds items to a conversation. Calls must be added together with their outputs."""
    added = await door.sessions.add_messages(write, session_of(conversation_id), _history(body.items))
    return page([item for message in added for item in _of(message)], has_more=False)


@router.delete("/{conversation_id}/items/{item_id}")
async def delete_item(conversation_id: str, item_id: str, caller: Writer, door: DoorDep) -> Response:
    """Always rejects the deletion, because the input that an agent has received stays on record."""
    await door.sessions.read(caller.identity, session_of(conversation_id))
    stays = f"Item {item_id[:100]!r} can't be deleted on its own"
    raise refuse("item_id", f"{stays}. Delete the conversation, or create one without this item.", "unsupported_value")


def _history(items: Sequence[Any]) -> list[HistoryMessage]:
    if any(is_instruction(item) for item in items):
        raise refuse("items", "Items can't contain instructions. Send them with each response.", "unsupported_value")
    try:
        return messages_of(items)
    except ValidationFailed as problem:
        # The error refers to the field ``input`` of a response.
        raise refuse("items", problem.message, "invalid_value") from None


async def _items(sessions: Sessions, caller: Principal, session_id: str, *, newest_first: bool) -> AsyncIterator[Json]:
    first = await sessions.messages(caller.identity, session_id, offset=0, limit=_PAGE)
    offsets = range(0, first.total, _PAGE)
    for offset in reversed(offsets) if newest_first else offsets:
        page = first
        if offset:
            page = await sessions.messages(caller.identity, session_id, offset=offset, limit=_PAGE)
        items = [item for message in page.messages for item in _of(message)]
        for item in reversed(items) if newest_first else items:
            yield item


def _of(message: Message) -> list[Json]:
    return history_items(message.id, message.role, message.content_blocks)


def _answer(session: Session) -> Response:
    conversation = {
        "id": f"conv_{session.session_id}",
        "object": "conversation",
        "created_at": int(parse_time(session.created_at).timestamp()),
        "metadata": session.metadata or {},
    }
    return value_answer(conversation, headers=turn_headers(session.session_id))

"""Keeps models' reasoning out of replies, and sends it back to the model that produced it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from services.runtime.domain.conversation import AssistantMessage, Message, ModelAnswer
from services.runtime.domain.models import ChatModel, ModelRequest, OnText

_TAGS: Final = ("<think>", "<thinking>", "<thought>")
_LONGEST_TAG: Final = max(map(len, _TAGS)) + 1
# Text around a tag means that the tag is quoted.
_QUOTES: Final = ("`", '"', "'")
_MODEL: Final = "model"


class ReasoningApart:
    """Wraps a ChatModel and removes reasoning blocks from the text of answers.

    Provider data is only sent back to the model that produced it, since other models reject or misread it.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        asked = replace(request, messages=tuple(_own(message, request.model) for message in request.messages))
        if on_text is None:
            answer = await self._model.answer(asked)
        else:
            streamed = ReplyText()
            answer = await self._model.answer(asked, lambda piece: _emit(streamed.take(piece), on_text))
            _emit(streamed.finish(), on_text)
        reply = ReplyText()
        text = reply.take(answer.text) + reply.finish()
        data = dict(answer.provider_data or {})
        if text != answer.text:
            data["content"] = answer.text
        if data or any(call.provider_data for call in answer.tool_calls):
            data[_MODEL] = request.model
        return replace(answer, text=text, provider_data=data or None)


def _emit(text: str, on_text: OnText) -> None:
    if text:
        on_text(text)


def _own(message: Message, model: str) -> Message:
    """Returns the message without provider data that `model` didn't produce."""
    if not isinstance(message, AssistantMessage):
        return message
    data: Mapping[str, Any] = message.provider_data or {}
    if data.get(_MODEL) == model:
        return replace(message, provider_data={name: value for name, value in data.items() if name != _MODEL} or None)
    calls = tuple(replace(call, provider_data=None) for call in message.tool_calls)
    return replace(message, tool_calls=calls, provider_data=None)


class ReplyText:
    """Removes reasoning blocks from text that arrives in pieces.

    Only a block at the start may lack an end tag. Elsewhere, quoted tags and unfinished blocks are ordinary text.
    """

    def __init__(self) -> None:
        self._held = ""
        self._block: list[str] = []
        self._end = ""
        self._before_reply = True
        self._after_block = False
        self._last = ""

    def take(self, piece: str) -> str:
        """Adds a piece and returns the text that is known to belong to the reply."""
        text, replies = self._held + piece, []
        self._held = ""
        while text:
            if self._end:
                text = self._within_block(text)
            elif self._before_reply:
                text = self._at_beginning(text)
            else:
                reply, text = self._within_reply(text)
                replies.append(reply)
        return "".join(replies)

    def finish(self) -> str:
        """Returns the rest of the reply after the last piece."""
        rest = "".join([*self._block, self._held])
        if self._before_reply and (self._end or self._after_block):
            return "" if self._end else rest.lstrip()
        return rest

    def _within_block(self, text: str) -> str:
        """Skips the current block and returns the text after it."""
        _, end, after = text.partition(self._end)
        if end:
            self._end = ""
            self._block.clear()
            return after
        self._held = text[-(len(self._end) - 1) :]
        if not self._before_reply:
            self._block.append(text[: -(len(self._end) - 1)])
        return ""

    def _at_beginning(self, text: str) -> str:
        begun = text.lstrip()
        tag = next((tag for tag in _TAGS if begun.startswith(tag)), None)
        if tag is not None:
            self._end, self._after_block = _end_of(tag), True
            return begun[len(tag) :]
        if any(tag.startswith(begun) for tag in _TAGS):
            self._held = text
            return ""
        self._before_reply = False
        return begun if self._after_block else text

    def _within_reply(self, text: str) -> tuple[str, str]:
        """Returns the reply text before the next block, and the text after that block's start tag."""
        index = 0
        while (index := text.find("<", index)) >= 0:
            rest = text[index : index + _LONGEST_TAG]
            quoted = (text[index - 1] if index else self._last) in _QUOTES
            tag = None if quoted else next((tag for tag in _TAGS if rest.startswith(tag)), None)
            if tag is not None:
                self._end = _end_of(tag)
                self._block.append(tag)
                return self._reply(text[:index]), text[index + len(tag) :]
            if not quoted and index + len(rest) == len(text) and any(tag.startswith(rest) for tag in _TAGS):
                self._held = rest
                return self._reply(text[:index]), ""
            index += 1
        return self._reply(text), ""

    def _reply(self, text: str) -> str:
        self._last = text[-1:] or self._last
        return text


def _end_of(tag: str) -> str:
    return f"</{tag[1:]}"

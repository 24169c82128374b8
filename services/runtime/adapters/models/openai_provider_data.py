"""Fields beside the protocol's own that servers send with a message or a call, and need back within the turn."""

from collections.abc import Mapping
from typing import Any, Final

from libs.json_text import is_deeper, without_half_pairs_in
from services.runtime.domain.conversation import JsonObject

# Of a message or a call. DeepSeek and its like, OpenRouter, Gemini and LiteLLM, in this order.
_FIELDS: Final = (
    "reasoning_content", "reasoning", "reasoning_details", "extra_content", "provider_specific_fields",
    "thinking_blocks",
)  # fmt: skip
# orjson writes 250 levels, half of what it reads.
_DEEPEST: Final = 64
# Texts that come in pieces; others come whole, some of them again with each piece.
_IN_PIECES: Final = frozenset(("reasoning_content", "reasoning", "text", "summary", "data", "thinking"))


def provider_data_of(message: Mapping[str, Any]) -> JsonObject | None:
    """Provider data of a whole message or call."""
    return {name: value for name in _FIELDS if (value := message.get(name)) and not is_deeper(value, _DEEPEST)} or None


def add_provider_data(gathered: JsonObject, delta: Mapping[str, Any]) -> None:
    """Adds those of one chunk to those of the chunks before."""
    for name in _FIELDS:
        value = delta.get(name)
        if value and not is_deeper(value, _DEEPEST):
            gathered[name] = _joined(name, gathered.get(name), value)


def finished_provider_data(gathered: JsonObject) -> JsonObject | None:
    data: JsonObject = without_half_pairs_in(_written(gathered))
    return data or None


def _joined(name: str, before: Any, more: Any) -> Any:
    """Pieces of texts stay in a list until all are there."""
    if isinstance(more, str) and name in _IN_PIECES:
        pieces = before if isinstance(before, _Pieces) else _Pieces()
        pieces.append(more)
        return pieces
    if isinstance(more, dict):
        joined = before if isinstance(before, dict) else {}
        for key, value in more.items():
            if value is not None:
                joined[key] = _joined(key, joined.get(key), value)
        return joined
    if isinstance(more, list):
        items = before if isinstance(before, list) else []
        for item in more:
            _add_item(items, item)
        return items
    return more


def _add_item(items: list[Any], item: Any) -> None:
    """Items with an index go on with the one of that index."""
    index = item.get("index") if isinstance(item, dict) else None
    same = next((i for i in items if index is not None and isinstance(i, dict) and i.get("index") == index), None)
    if same is None:
        items.append(_joined("", None, item))
    else:
        _joined("", same, item)


class _Pieces(list[str]):
    """A text in pieces."""


def _written(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _written(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_written(item) for item in value]
    return value

"""Depth of JSON values."""

from typing import Any


def is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested in more than so many levels."""
    level: list[Any] = [value]
    for _ in range(levels):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return any(isinstance(item, dict | list) for item in level)

"""Ids that callers give."""

from libs.contracts.errors import NotFound
from libs.contracts.identifiers import is_id


def id_of(value: str, thing: str) -> str:
    """The id as given. Raises ``NotFound`` for malformed text, which cannot be anything's."""
    if not is_id(value):
        raise NotFound(f"There is no {thing} with this id.")
    return value

"""Rows of ``api_keys`` and back."""

from typing import Any, Final

from services.gateway.domain.accounts import ApiKey

COLUMNS: Final = (
    "id, company_id, user_id, name, prefix, scopes, rate_limit, created_at, expires_at, revoked_at, successor_id"
)


def key_from(row: tuple[Any, ...]) -> ApiKey:
    """The key in a row selected by ``COLUMNS``."""
    identifier, company, user, name, prefix, scopes, rate_limit, created, expires, revoked, successor = row
    return ApiKey(
        id=str(identifier),
        company_id=str(company),
        user_id=str(user),
        name=name,
        prefix=prefix,
        scopes=frozenset(scopes),
        rate_limit=rate_limit,
        created_at=created,
        expires_at=expires,
        revoked_at=revoked,
        successor_id=None if successor is None else str(successor),
    )

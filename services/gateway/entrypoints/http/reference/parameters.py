"""Parameters that several operations take."""

from typing import Any, Final

from libs.contracts.identifiers import CORRELATION_ID_PATTERN
from services.gateway.entrypoints.http.reference import texts
from services.gateway.entrypoints.http.validation import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, MAX_OFFSET


def query_parameter(name: str, description: str, **schema: Any) -> dict[str, Any]:
    """A parameter of the query, text unless ``schema`` says otherwise."""
    return {"name": name, "in": "query", "description": description, "schema": schema or {"type": "string"}}


def _header(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string", **schema}}


def also_takes(*parameters: dict[str, Any]) -> dict[str, Any]:
    """The ``openapi_extra`` of an operation that reads parameters itself, or whose upstream does."""
    return {"parameters": list(parameters)}


def reference_to(name: str) -> dict[str, Any]:
    """A parameter by its name in ``SHARED``."""
    return {"$ref": f"#/components/parameters/{name}"}


CORRELATION_ID: Final = _header("X-Correlation-ID", texts.CORRELATION_IN, pattern=CORRELATION_ID_PATTERN)
IDEMPOTENCY_KEY: Final = _header("Idempotency-Key", texts.IDEMPOTENCY, pattern="^[ -~]{1,200}$")
LAST_EVENT_ID: Final = _header("Last-Event-ID", texts.LAST_EVENT_ID)
PREFER: Final = _header("Prefer", texts.PREFER, examples=["wait=30", "respond-async"])
LIMIT: Final = query_parameter(
    "limit", "Items in the page.", type="integer", minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT
)
ANY_LIMIT: Final = query_parameter(
    "limit", "Items in the page; all of them without it.", type="integer", minimum=1, maximum=MAX_LIMIT
)
OFFSET: Final = query_parameter("offset", "Items to skip.", type="integer", minimum=0, maximum=MAX_OFFSET, default=0)
AFTER: Final = query_parameter("after", "`next` of the page before, to go on behind it.", maxLength=MAX_CURSOR)
SHARED: Final = {
    "CorrelationId": CORRELATION_ID,
    "Limit": LIMIT,
    "Offset": OFFSET,
    "After": AFTER,
    "IdempotencyKey": IDEMPOTENCY_KEY,
    "LastEventId": LAST_EVENT_ID,
    "Prefer": PREFER,
}
"""Written down once in the document, by the name that operations refer to them by."""

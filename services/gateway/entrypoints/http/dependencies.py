"""Dependencies of endpoints: the use cases, the caller's write, how the caller waits."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Request

from libs.contracts.errors import InvalidRequest
from libs.tracing import current_correlation_id
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.domain.ports import TokenCodec
from services.gateway.domain.usage import UsageStore
from services.gateway.entrypoints.http.event_streams import MEDIA_TYPE, EventStreams
from services.gateway.entrypoints.http.queries import IdempotencyKey
from services.gateway.use_cases.agents import Agents
from services.gateway.use_cases.budgets import Budgets
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.company_timeline import CompanyTimeline
from services.gateway.use_cases.connections import Connections
from services.gateway.use_cases.dead_letters import VisibleDeadLetters
from services.gateway.use_cases.health import Health
from services.gateway.use_cases.keys import Keys
from services.gateway.use_cases.limits import Limits
from services.gateway.use_cases.secrets import Secrets
from services.gateway.use_cases.sessions import Sessions
from services.gateway.use_cases.turns import Turns
from services.gateway.use_cases.webhooks.webhooks import Webhooks

DEFAULT_WAIT: Final = 120.0
MAX_WAIT: Final = 600.0
_WAIT: Final = re.compile(r"wait\s*=\s*\"?(\d{1,9})\"?", re.ASCII)
_WEIGHT: Final = re.compile(r"q\s*=\s*([01](?:\.\d{0,3})?)", re.ASCII)
_MAX_KEY: Final = 200
_MIN_PUBLIC_KEY: Final = 32
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCases:
    """Parts that endpoints call: the use cases, and ports where a use case would add nothing."""

    commands: CommandDispatcher
    agents: Agents
    sessions: Sessions
    turns: Turns
    timeline: CompanyTimeline
    keys: Keys
    tokens: TokenCodec
    connections: Connections
    webhooks: Webhooks
    secrets: Secrets
    budgets: Budgets
    limits: Limits
    usage: UsageStore
    health: Health
    dead_letters: VisibleDeadLetters
    streams: EventStreams
    now: Callable[[], datetime]


async def use_cases(request: Request) -> UseCases:
    found: UseCases = request.app.state.use_cases
    return found


async def plain_write(request: Request) -> Write:
    """Dependency: the request as a write to carry out. Stands behind the caller and the body of an operation."""
    principal: Principal = request.state.principal
    given = request.headers.get("traceparent")
    return Write(
        identity=principal.identity,
        correlation_id=correlation_id(),
        # The caller's W3C trace context; one that is malformed is ignored, as the recommendation says.
        traceparent=given if given is not None and _TRACEPARENT.fullmatch(given) else None,
    )


async def idempotent_write(request: Request, key: IdempotencyKey = None) -> Write:
    """Dependency: as ``plain_write``, for a write that can be repeated. Raises ``InvalidRequest`` for a bad key."""
    write = await plain_write(request)
    if key is not None:
        values = getattr(request.state, "values", None)
        write.request = repeatable(request.state.principal, request.method, request.scope["path"], key, values)
    return write


def repeatable(principal: Principal, method: str, path: str, key: str, values: Any) -> IdempotentRequest:
    """A write with that ``Idempotency-Key``. Raises ``InvalidRequest`` for a bad one."""
    return IdempotentRequest(
        company_id=principal.identity.company_id,
        principal_id=principal.identity.user_id,
        method=method,
        path=path,
        key=checked_key(key, principal),
        body_hash=hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).digest(),
    )


def correlation_id() -> str:
    """The correlation id of the running request, which ``ObservedRequests`` has bound."""
    return current_correlation_id() or ""


def checked_key(key: str, principal: Principal) -> str:
    # Public principals share an identity: with a guessable key one visitor would get what another one made.
    shortest = 1 if principal.public is None else _MIN_PUBLIC_KEY
    if not shortest <= len(key) <= _MAX_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidRequest(f"The Idempotency-Key must be {shortest} to {_MAX_KEY} printable ASCII characters.")
    return key


@dataclass(frozen=True, slots=True)
class Preference:
    """``wait`` in seconds; 0 when the caller does not want to wait for the turn's end."""

    wait: float = DEFAULT_WAIT
    applied: str = ""


def preference_of(prefer: str | None) -> Preference:
    """Preferences that are not understood are ignored, as RFC 7240 says."""
    if not prefer:
        return Preference()
    wait: float | None = None
    respond_async = False
    for part in prefer.lower().split(","):
        preference = part.partition(";")[0].strip()
        respond_async = respond_async or preference == "respond-async"
        matched = _WAIT.fullmatch(preference)
        if matched and wait is None:
            wait = min(float(matched[1]), MAX_WAIT)
    if respond_async:
        return Preference(wait or 0.0, "respond-async")
    return Preference() if wait is None else Preference(wait, f"wait={wait:g}")


def wants_events(accept: str | None) -> bool:
    """Whether an ``Accept`` header names event streams, and JSON not rather than them. ``*/*`` does not name them."""
    if accept is None or MEDIA_TYPE not in accept.lower():
        return False
    weights = dict(map(_weighed, accept.lower().split(",")))
    events = weights.get(MEDIA_TYPE, 0.0)
    return events > 0 and events >= weights.get("application/json", 0.0)


def _weighed(accepted: str) -> tuple[str, float]:
    """A media type of ``Accept`` with its weight, which is 1 unless a readable one is given."""
    media_type, *parameters = (part.strip() for part in accepted.split(";"))
    given = next((_WEIGHT.fullmatch(each) for each in parameters if each.startswith("q")), None)
    return media_type, float(given[1]) if given else 1.0


UseCasesDep = Annotated[UseCases, Depends(use_cases)]
PlainWrite = Annotated[Write, Depends(plain_write)]
IdempotentWrite = Annotated[Write, Depends(idempotent_write)]

"""Reads the timeline through the timeline service's internal API."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from libs.contracts.identity import Identity, Scope
from libs.contracts.timeline import TimelineFilter
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.timeline import TimelineEvent, TimelinePage

_TIMELINE: Final = "timeline"
_EVENTS: Final = "/internal/events"
_NARROWED: Final = ("correlation_id", "session_id", "turn_id")


class HttpTimeline:
    """Reads events. Every method raises ``ServiceUnavailable`` if the timeline service doesn't respond."""

    def __init__(self, upstreams: UpstreamClient) -> None:
        self._upstreams = upstreams

    async def heads(self, company_ids: Sequence[str]) -> Mapping[str, int]:
        body = orjson.dumps(list(company_ids))
        reply = await self._upstreams.request("POST", _TIMELINE, f"{_EVENTS}/heads", _READER_OF_ALL, body=body)
        heads: dict[str, int] = orjson.loads(checked(reply))
        return heads

    async def newest(self, where: TimelineFilter) -> TimelineEvent | None:
        events, _ = _read(await self._get(f"{_EVENTS}/newest", _reader_by(where), _wanted(where)))
        return events[0] if events else None

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage:
        params = {**_wanted(where), "after": after, "limit": limit}
        return _page(await self._get(_EVENTS, _reader_by(where), params))

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage:
        cursor = {} if before is None else {"before": before}
        params = {**_wanted(where), **cursor, "limit": limit}
        return _page(await self._get(f"{_EVENTS}/back", _reader_by(where), params))

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[TimelineEvent]:
        path = f"/internal/turns/{turn_id}/events"
        events, _ = _read(await self._get(path, _reader(company_id), {"after": after_sequence}))
        return events

    async def _get(self, path: str, reader: Identity, params: dict[str, Any] | None = None) -> bytes:
        return checked(await self._upstreams.request("GET", _TIMELINE, path, reader, params=params))


def _reader(company_id: str, user_id: str | None = None) -> Identity:
    """Returns an identity that sees the user's events or, without a user, the whole company's events."""
    scopes = frozenset[str]() if user_id is not None else frozenset({Scope.COMPANY_READ})
    return Identity(company_id=company_id, user_id=user_id or "gateway", key_id="gateway", scopes=scopes)


def _reader_by(where: TimelineFilter) -> Identity:
    return _reader(where.company_id, where.visible_to)


_READER_OF_ALL: Final = Identity(
    company_id="", user_id="gateway", key_id="gateway", scopes=frozenset({Scope.INSTALLATION_READ})
)


def _wanted(where: TimelineFilter) -> dict[str, Any]:
    narrowed = {name: getattr(where, name) for name in _NARROWED if getattr(where, name) is not None}
    return {**narrowed, **({"type": list(where.types)} if where.types else {})}


def _page(reply: bytes) -> TimelinePage:
    events, facts = _read(reply)
    return TimelinePage(events, facts["next"], facts["has_more"])


def _read(reply: bytes) -> tuple[list[TimelineEvent], dict[str, Any]]:
    """Parses a response: a line with the metadata of all events, followed by the events' payloads."""
    line, _, payloads = reply.partition(b"\n")
    facts: dict[str, Any] = orjson.loads(line)
    events, begin = [], 0
    for head in facts["events"]:
        end = begin + head.pop("length")
        events.append(TimelineEvent(**head, data=payloads[begin:end]))
        begin = end
    return events, facts

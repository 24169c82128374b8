"""The `current_time` tool."""

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema


def _utc_now() -> datetime:
    return datetime.now(UTC)


class CurrentTime:
    definition = ToolDefinition(
        name="current_time",
        description="Returns the current date and time in a time zone.",
        parameters=object_schema(
            [],
            timezone={
                "type": "string",
                "maxLength": 64,
                "description": "IANA name, e.g. Europe/Madrid; default UTC",
            },
        ),
        safe_to_repeat=True,
        timeout_seconds=5.0,
    )

    def __init__(self, now: Callable[[], datetime] = _utc_now) -> None:
        self._now = now

    async def call(self, arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        name: str = arguments.get("timezone") or "UTC"
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ToolFailed(f"unknown time zone {name!r}; use an IANA name such as Europe/Madrid") from error
        moment = self._now().astimezone(zone)
        offset = f"{moment:%z}"
        return ToolOutput(f"{moment:%A}, {moment:%Y-%m-%d %H:%M:%S} {name} (UTC{offset[:3]}:{offset[3:]})")

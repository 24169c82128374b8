"""The doctor's checks and findings."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

Level = Literal["ok", "warning", "failed", "skipped"]
_SECONDS: Final = 45.0
# The expiry of commands, tokens and links depends on the clocks of several machines.
_MOST_SKEW_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Finding:
    check: str
    level: Level
    detail: str
    remedy: str = ""
    """Empty for the levels `ok` and `skipped`."""

    def as_json(self) -> dict[str, Any]:
        return {"check": self.check, "state": self.level, "detail": self.detail, "remedy": self.remedy or None}


def ok(check: str, detail: str) -> Finding:
    return Finding(check, "ok", detail)


def warning(check: str, detail: str, remedy: str) -> Finding:
    return Finding(check, "warning", detail, remedy)


def failed(check: str, detail: str, remedy: str) -> Finding:
    return Finding(check, "failed", detail, remedy)


def skipped(check: str, detail: str) -> Finding:
    return Finding(check, "skipped", detail)


def compare_clocks(check: str, theirs: float, before: float, after: float) -> Finding:
    """Compares the time ``theirs``, read between ``before`` and ``after``, with this machine's.

    All times are in Unix seconds.
    """
    skew = theirs - min(max(theirs, before), after)
    detail = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine"
    if abs(skew) <= _MOST_SKEW_SECONDS:
        return ok(check, detail if abs(skew) >= 0.1 else "in sync with this machine")
    return failed(check, detail, "Synchronize all clocks, with NTP or chrony.")


@dataclass(frozen=True)
class Check:
    """A check. ``remedy`` is the advice if ``run`` raises an exception or times out."""

    name: str
    run: Callable[[], Awaitable[list[Finding]]]
    remedy: str


async def examine(checks: list[Check]) -> list[Finding]:
    """Runs the checks concurrently. Returns the findings in the checks' order."""
    return [finding for found in await asyncio.gather(*map(_run, checks)) for finding in found]


async def _run(check: Check) -> list[Finding]:
    try:
        async with asyncio.timeout(_SECONDS):
            return await check.run()
    except TimeoutError:
        return [failed(check.name, "it didn't respond in time", check.remedy)]
    except Exception as problem:
        message = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        return [failed(check.name, message, check.remedy)]

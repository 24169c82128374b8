"""How far another clock is from this machine's."""

from typing import Final

from cli.doctor.findings import Finding, failed, ok

# Commands expire, tokens end and links stop working by the clocks of different machines.
_MOST_SECONDS: Final = 2.0


def compare(check: str, theirs: float, before: float, after: float) -> Finding:
    """``theirs`` was read between ``before`` and ``after``; all in seconds since 1970."""
    skew = theirs - min(max(theirs, before), after)
    detail = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine"
    if abs(skew) <= _MOST_SECONDS:
        return ok(check, detail if abs(skew) >= 0.1 else "as this machine's")
    return failed(check, detail, "Have all machines keep the same time, by NTP or chrony.")

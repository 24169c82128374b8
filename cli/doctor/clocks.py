"""Measures the offset between another clock and this machine's."""

from typing import Final

from cli.doctor.findings import Finding, failed, ok

# Expiry of commands, tokens and links compares clocks of different machines.
_MOST_SECONDS: Final = 2.0


def compare(check: str, theirs: float, before: float, after: float) -> Finding:
    """Returns the offset of ``theirs``, read between ``before`` and ``after``; all in Unix seconds."""
    skew = theirs - min(max(theirs, before), after)
    detail = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine"
    if abs(skew) <= _MOST_SECONDS:
        return ok(check, detail if abs(skew) >= 0.1 else "as this machine's")
    return failed(check, detail, "Have all machines keep the same time, by NTP or chrony.")

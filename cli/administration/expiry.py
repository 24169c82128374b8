"""How operators write down when a key expires."""

import re
from datetime import UTC, datetime, timedelta

import typer

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def parse_expiry(text: str, now: datetime) -> datetime | None:
    """The moment meant by `90d`, `12h`, `2w`, a date or a timestamp; None for `never`."""
    if text == "never":
        return None
    span = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if span:
        return now + timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no span such as 90d, no date, and not 'never'") from None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    if moment <= now:
        raise typer.BadParameter(f"'{text}' is in the past")
    return moment

"""Jobs and outcomes of the load generator, as lines of JSON."""

from dataclasses import dataclass, field
from typing import Literal

Side = Literal["aes", "reference"]
Protocol = Literal["native", "responses", "chat"]


@dataclass(frozen=True)
class Job:
    side: Side
    port: int
    """On 127.0.0.1; the generator talks to no other host."""
    api_key: str
    model: str
    agent_type: str
    stream: bool
    tool: str
    """The tool that every turn must call; empty for none."""
    concurrency: int
    """Sessions that are busy at any moment, one connection each."""
    turns: int
    seconds: float
    """No turn begins later than this."""
    warm_up: int
    """Number of unmeasured turns before the measured ones."""
    turns_per_session: int
    """Turns per session; a fresh session follows, so that the history stays bounded."""
    opens_sessions: bool = False
    """Whether sessions are created while the clock runs, each before its first turn, and not before it starts."""
    protocol: Protocol = "native"
    """The words that the service is asked in. OpenAI's requests begin a session of their own with each turn."""


@dataclass
class Outcome:
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Milliseconds of each turn."""
    first_texts: list[float] = field(default_factory=list)
    """Milliseconds until the first piece of text, of each streamed turn."""
    creations: list[float] = field(default_factory=list)
    """Milliseconds of each creation of a session while the clock ran."""

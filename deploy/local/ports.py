"""Ports of the stack: chosen once, remembered, and chosen again if other programs have taken them."""

import json
import random
import socket
from collections.abc import Mapping
from pathlib import Path

from deploy.local.errors import StackError
from deploy.local.files import read_json, write_atomically

# Below the range of outgoing connections: a client that retries a port in that range while its server restarts may
# connect to itself and block the server's return.
_CANDIDATES = range(20000, 30000)
_ATTEMPTS = 200
_share = _CANDIDATES
_untried: list[int] = []


def use_share(number: int, shares: int) -> None:
    """Makes this process choose from one of several equal shares of the candidates.

    For concurrent processes: a port that one has chosen but not bound yet looks free to the others.
    """
    global _share
    _share = _CANDIDATES[number::shares]
    _untried.clear()


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose_free(taken: set[int] | frozenset[int] = frozenset()) -> int:
    for _ in range(_ATTEMPTS):
        port = _next_candidate()
        if port not in taken and is_free(port):
            return port
    raise StackError(
        f"No free port found between {_CANDIDATES.start} and {_CANDIDATES.stop}.",
        "End programs that listen on ports of this range and try again.",
    )


def _next_candidate() -> int:
    """All candidates in random order, so that a chosen port is unlikely to be chosen again before it is bound."""
    if not _untried:
        _untried.extend(random.sample(_share, len(_share)))
    return _untried.pop()


def allocate(file: Path, names: list[str], fixed: Mapping[str, int], preferred: Mapping[str, int]) -> dict[str, int]:
    """A port per name: `fixed` ones must be free; others are remembered, preferred or random."""
    remembered = read_json(file)
    ports: dict[str, int] = {}
    for name in names:
        if name in fixed:
            if not is_free(fixed[name]):
                raise StackError(
                    f"Port {fixed[name]}, asked for by AES_{name.upper()}_PORT, is taken by another program.",
                    "End that program, name another port, or unset the variable to have a free one chosen.",
                )
            ports[name] = fixed[name]
            continue
        taken = set(ports.values()) | set(fixed.values())
        wishes = [port for port in (remembered.get(name), preferred.get(name)) if isinstance(port, int)]
        ports[name] = next((port for port in wishes if port not in taken and is_free(port)), None) or choose_free(taken)
    # Don't remember a port that was fixed for this start.
    lasting = {name: port for name, port in ports.items() if name not in fixed}
    write_atomically(file, json.dumps({**remembered, **lasting}, indent=2) + "\n")
    return ports

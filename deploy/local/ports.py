"""Chooses the stack's ports once, and stores them. A port that another program has taken is replaced."""

import json
import random
import socket
from collections.abc import Mapping
from pathlib import Path

from deploy.local.errors import StackError
from deploy.local.files import read_json, write_atomically

# Below the range of outgoing connections. A client that retries a port in that range while its server restarts may
# connect to itself and block the server's return.
CANDIDATES = range(20000, 30000)
_ATTEMPTS = 200
_untried: list[int] = []


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_free(taken: set[int] | frozenset[int] = frozenset()) -> int:
    for _ in range(_ATTEMPTS):
        # No port repeats before all have been tried.
        if not _untried:
            _untried.extend(random.sample(CANDIDATES, len(CANDIDATES)))
        port = _untried.pop()
        if port not in taken and is_free(port):
            return port
    raise StackError(
        f"No free port found between {CANDIDATES.start} and {CANDIDATES.stop}.",
        "Stop programs that listen on ports in this range, and try again.",
    )


def allocate(file: Path, names: list[str], fixed: Mapping[str, int], preferred: Mapping[str, int]) -> dict[str, int]:
    """Returns a port for each name: the fixed one or the first free one of the stored, preferred and random ports.

    Raises StackError if a fixed port isn't free.
    """
    remembered = read_json(file)
    ports: dict[str, int] = {}
    for name in names:
        if name in fixed:
            if not is_free(fixed[name]):
                raise StackError(
                    f"Port {fixed[name]}, set by AES_{name.upper()}_PORT, is in use by another program.",
                    "Stop that program, set another port, or unset the variable to use a free one.",
                )
            ports[name] = fixed[name]
            continue
        taken = set(ports.values()) | set(fixed.values())
        wishes = [port for port in (remembered.get(name), preferred.get(name)) if isinstance(port, int)]
        ports[name] = next((port for port in wishes if port not in taken and is_free(port)), None) or choose_free(taken)
    # A port that was fixed for this start isn't stored.
    lasting = {name: port for name, port in ports.items() if name not in fixed}
    write_atomically(file, json.dumps({**remembered, **lasting}, indent=2) + "\n")
    return ports

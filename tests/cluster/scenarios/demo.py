"""The demo as somebody runs it who tries the system out."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from deploy.local.home import PROJECT_ROOT
from tests.cluster.cluster import Installation, Say, ScenarioFailed
from tests.cluster.node import environment

_PORT = 8080
_SECONDS = 300.0


def through_a_port_forward(small: Installation, say: Say) -> None:
    """`aes demo` as from a laptop: the gateway and the object store are reached by port-forwards."""
    with (
        small.forwarded("gateway", _PORT, 8000, "/health/live") as base_url,
        # Links to artifacts lead there.
        small.forwarded("objects", 9000, 9000, "/health"),
        tempfile.TemporaryDirectory() as home,
    ):
        command = [PROJECT_ROOT / "aes", "demo", "--json", "--base-url", base_url, "--api-key", small.api_key]
        own = {"AES_HOME": home, "AES_PYTHON": sys.executable, "NO_COLOR": "1"}
        done = subprocess.run(
            command,
            cwd=PROJECT_ROOT,
            env=environment() | own,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode != 0:
        raise ScenarioFailed(f"the demo ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    sessions = json.loads(done.stdout)["sessions"]
    turns = sum(len(session["turns"]) for session in sessions)
    say(f"the demo ran to its end: {len(sessions)} sessions, {turns} turns")

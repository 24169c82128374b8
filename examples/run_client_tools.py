"""Talks to an agent with two tools: one needs a person's approval, and the other is a function of this program.

After a lost connection, the program retries the same request, so nothing is lost. It requires only Python:

    AES_API_KEY=… python examples/run_client_tools.py http://127.0.0.1:8080 \
        "What is 3 * 245, and how many free seats does crossing 4711 have?"

It asks before it allows a call; `--yes` allows all calls.
"""

import argparse
import http.client
import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

AGENT = Path(__file__).parent / "agents" / "cashier.yaml"
# An execute request returns after at most 120 s.
SILENCE_SECONDS = 150
LOST = (http.client.HTTPException, OSError)
AGAIN = (429, 502, 503, 504)
LONGEST_OUTAGE_SECONDS = 300


def free_seats(crossing: int) -> dict[str, int]:
    """Returns the free seats of a crossing. The agent's `client_tools` describe this tool to the model."""
    return {"crossing": crossing, "free": 118}


TOOLS: dict[str, Callable[..., Any]] = {"free_seats": free_seats}


class Unreachable(Exception):
    """The service didn't respond in time."""


class Service:
    def __init__(self, base_url: str, api_key: str) -> None:
        self._base_url = f"{base_url}/api/v1"
        self._api_key = api_key

    def post(self, path: str, body: bytes, *, kind: str = "application/json", key: str = "") -> dict[str, Any]:
        """Sends a request until it succeeds, with one idempotency key. Raises HTTPError or Unreachable."""
        headers = {"x-api-key": self._api_key, "content-type": kind, "idempotency-key": key or str(uuid.uuid4())}
        request = Request(self._base_url + path, body, headers)
        deadline = time.monotonic() + LONGEST_OUTAGE_SECONDS
        while True:
            try:
                with urlopen(request, timeout=SILENCE_SECONDS) as response:
                    answer: dict[str, Any] = json.load(response)
                    return answer
            except HTTPError as refusal:
                if refusal.code not in AGAIN or time.monotonic() > deadline:
                    raise
                print(f"Rejected, retrying: {refusal}", file=sys.stderr)
            except LOST as problem:
                if time.monotonic() > deadline:
                    raise Unreachable(getattr(problem, "reason", problem)) from problem
                print(f"Connection lost, retrying: {problem}", file=sys.stderr)
            time.sleep(1)


def ask(service: Service, session: str, question: str, allows: Callable[[str], bool]) -> str:
    """Returns the agent's reply. Meanwhile, resolves the actions that the turn requires."""
    message, key = json.dumps({"content": question}).encode(), str(uuid.uuid4())
    while True:
        answer = service.post(f"/runtime/{session}/execute/", message, key=key)
        if "response" in answer:
            return str(answer["response"]["content"])
        # 202: the turn is waiting for these actions, or it just takes longer.
        for action in answer["required_actions"]:
            place = f"/runtime/{session}/turns/{answer['turn_id']}/actions/{action['action_id']}/"
            try:
                service.post(place, json.dumps(answer_to(action, allows)).encode())
            except HTTPError as refusal:
                # Someone else was faster, or the action has expired. The turn continues.
                if refusal.code != 409:
                    raise
                print(f"The call to {action['tool_call']['name']} no longer needs an answer", file=sys.stderr)


def answer_to(action: dict[str, Any], allows: Callable[[str], bool]) -> dict[str, Any]:
    call = action["tool_call"]
    shown = f"{call['name']} {json.dumps(call['arguments'])}"
    if action["kind"] == "approval":
        return {"decision": "approve"} if allows(shown) else {"decision": "deny", "reason": "The user denied the call."}
    try:
        output = TOOLS[call["name"]](**call["arguments"])
    except Exception as problem:
        # The model receives the error and continues.
        return {"error": f"{type(problem).__name__}: {problem}"}
    print(f"Ran {shown}", flush=True)
    return {"output": output}


def main() -> int:
    parser = argparse.ArgumentParser(description="Talk to an agent that can call a function of this program.")
    parser.add_argument("base_url", help="address of the service, such as http://127.0.0.1:8080")
    parser.add_argument("question")
    parser.add_argument("--yes", action="store_true", help="allow every call")
    options = parser.parse_args()
    if not options.base_url.startswith(("http://", "https://")):
        parser.error(f"Invalid URL {options.base_url}: it must start with http:// or https://")
    base_url = options.base_url.rstrip("/").removesuffix("/api/v1")
    service = Service(base_url, os.environ.get("AES_API_KEY", ""))
    agent = AGENT.read_bytes()
    try:
        session = service.post("/sessions/", agent, kind="application/yaml")["session_id"]
        allows = (lambda _: True) if options.yes else (lambda call: input(f"Allow {call}? [y/n] ").strip() == "y")
        print(ask(service, session, options.question, allows))
    except HTTPError as refusal:
        print(f"Error: {refusal}: {refusal.read().decode()}", file=sys.stderr)
        return 1
    except Unreachable as problem:
        print(f"Error: Couldn't connect to {base_url}: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

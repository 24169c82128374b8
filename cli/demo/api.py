"""Calls the API for the demo: all under one correlation id, with failures that say what to do."""

import json
from collections.abc import Iterator
from typing import Any, Self

import httpx

from cli.connection import Connection
from cli.demo.sse import ServerEvent, events_in, lines_in
from deploy.local.errors import StackError

_REMEDIES = {
    400: "Change what the message names.",
    401: "Check the key: --api-key or AES_API_KEY, else the one that `./aes up` printed.",
    403: "Use a key with the scopes that the demo needs: agents:read, knowledge:read, knowledge:write, "
    "files:write, sessions:write, sessions:read, runtime:execute, runtime:approve, artifacts:read, artifacts:write, "
    "events:read.",
    404: "Check the address and the ids.",
    422: "Change what the message names.",
    429: "Wait a moment and run the demo again.",
    502: "Check the model's name, its provider's key and your account there; more in: ./aes logs runtime",
    503: "A part of the service is down or starting. See: ./aes status",
    504: "The service is busy or a part of it is down. See: ./aes status",
}


class Api:
    def __init__(self, connection: Connection, correlation_id: str) -> None:
        self.base_url = connection.base_url
        self._client = connection.client()
        self._client.headers["X-Correlation-ID"] = correlation_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        return self._call("GET", path)

    def post(self, path: str, body: Any, *, idempotency_key: str | None = None) -> Any:
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return self._call("POST", path, json=body, headers=headers)

    def post_yaml(self, path: str, text: str) -> Any:
        return self._call("POST", path, content=text.encode(), headers={"content-type": "application/yaml"})

    def upload(self, path: str, name: str, content: bytes) -> Any:
        return self._call("POST", path, files={"file": (name, content)})

    def download(self, path: str) -> bytes:
        return self._answer("GET", path).content

    def stream(self, path: str, body: Any) -> Iterator[ServerEvent]:
        """Yields the server-sent events of a POST as they come."""
        return self._events("POST", path, json=body)

    def follow(self, path: str) -> Iterator[ServerEvent]:
        """Yields the server-sent events of a GET as they come."""
        return self._events("GET", path)

    def _events(self, method: str, path: str, **request: Any) -> Iterator[ServerEvent]:
        headers = {"accept": "text/event-stream"}
        try:
            with self._client.stream(method, path, headers=headers, **request) as response:
                if response.status_code != 200:
                    response.read()
                    raise explained(f"{method} {path}", response.status_code, response.content)
                yield from events_in(lines_in(response.iter_bytes()))
        except httpx.HTTPError as problem:
            raise self._unreachable(f"{method} {path}", problem) from problem

    def _call(self, method: str, path: str, **request: Any) -> Any:
        return self._answer(method, path, **request).json()

    def _answer(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            response = self._client.request(method, path, **request)
        except httpx.HTTPError as problem:
            raise self._unreachable(f"{method} {path}", problem) from problem
        if response.status_code >= 400:
            raise explained(f"{method} {path}", response.status_code, response.content)
        return response

    def _unreachable(self, call: str, problem: Exception) -> StackError:
        return unreachable(call, self.base_url, problem)


def unreachable(call: str, address: str, problem: Exception) -> StackError:
    """Renders an unanswered call as a failure for the terminal."""
    return StackError(
        f"{call} got no answer from {address}: {problem or type(problem).__name__}",
        "Is that the right address? For the embedded stack see what runs with: ./aes status, and what happened "
        "with: ./aes logs gateway",
    )


def explained(call: str, status: int, body: bytes) -> StackError:
    """Renders an error answer as a failure for the terminal."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return StackError(f"{call} answered {status} without an error body.", "Is this the right address?")
    lines = [f"{call} answered {status} {error.get('type')}: {error.get('message')}"]
    for detail in error.get("details") or []:
        place = ".".join(map(str, detail.get("loc", [])))
        hint = f" ({detail['hint']})" if detail.get("hint") else ""
        lines.append(f"  {place}: {detail.get('message')}{hint}")
    return StackError("\n".join(lines), remedy_of(status))


def remedy_of(status: int) -> str:
    return _REMEDIES.get(status, "See: ./aes logs gateway")

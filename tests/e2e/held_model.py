"""The model of the end-to-end tests: the stub, whose final answers a test may hold back."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from aiohttp import web

from tests.servers.model_stub import ModelStub, behaviour


class HeldModel(ModelStub):
    """Serves in a thread of its own, so that tests read ``requests`` and open the gate directly.

    A model named with ``hold`` makes its tool calls at once, but its final text waits while the gate is closed; with
    ``halt`` the second half of a streamed text does. One named with ``fetch`` calls
    ``http_get`` with the user's message, one named with ``ordered`` the tool that the message names, as the model knows
    it: ``{"tool": …, "arguments": …}``. ``visits`` counts requests that are not a model's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.visits = 0
        self._loop = asyncio.new_event_loop()
        self._gate = asyncio.Event()
        self._gate.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model", daemon=True)

    def serve(self, port: int) -> None:
        self._thread.start()
        self._run(self.start(port))

    def close(self) -> None:
        self.release()
        self._run(self.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def release(self) -> None:
        """Open the gate: answers held back go out, later ones pass."""
        self._loop.call_soon_threadsafe(self._gate.set)

    @contextmanager
    def held(self) -> Iterator[None]:
        """With the gate closed; it opens again at the end, whatever happens."""
        self._loop.call_soon_threadsafe(self._gate.clear)
        try:
            yield
        finally:
            self.release()

    def asked(self, text: str) -> list[dict[str, Any]]:
        """The requests so far whose last message of the user is ``text``, in their order."""
        return [body for body in self.requests if _question(body) == text]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST":
            self.visits += 1
            return web.Response(text="a secret of this machine")
        body = orjson.loads(await request.read())
        flags = behaviour(body["model"]).flags
        # Noted on arrival; the stub itself notes a request when it answers.
        self.requests.append(body)
        if "fetch" in flags and not tool_results(body):
            return web.json_response(_call("http_get", {"url": _question(body)}))
        if "ordered" in flags and not tool_results(body):
            order = orjson.loads(_question(body))
            return web.json_response(_call(order["tool"], order["arguments"]))
        if "hold" in flags and self._tool_round(body, flags) is None:
            await self._gate.wait()
        return await super()._handle(request)

    def _halfway(self, flags: frozenset[str]) -> asyncio.Event | None:
        return self._gate if "halt" in flags else None

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(120)


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


def _question(body: dict[str, Any]) -> Any:
    return next((m["content"] for m in reversed(body["messages"]) if m["role"] == "user"), None)


def tool_results(body: dict[str, Any]) -> int:
    """Counts the tool results of a request since the user's last message."""
    count = 0
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            break
        count += message["role"] == "tool"
    return count

"""A company's own tools over REST: a secret reaches its target and nothing else."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aiokafka import AIOKafkaConsumer

from deploy.local.services import DATABASES
from libs.contracts.topics import with_dead_letters
from libs.tracing import trace_id_of
from tests.e2e.api import Api, check_error, unique
from tests.e2e.running_stack import RECEIVERS, RunningStack
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.waiting import until


@dataclass
class Target:
    """Echoes the token that it is sent, as a careless server does."""

    url: str = ""
    tokens: list[str] = field(default_factory=list)


@contextmanager
def target() -> Iterator[Target]:
    found = Target()

    class Echo(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            token = self.headers["X-Token"]
            found.tokens.append(token)
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            body = f'{{"your token": "{token}", "answer": 42}}'.encode()
            self.send_response(401 if b"refuse" in asked else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer((RECEIVERS, 0), Echo)
    found.url = f"http://{RECEIVERS}:{server.server_port}/echo"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def echo() -> Iterator[Target]:
    with target() as running:
        yield running


def toolset(name: str, url: str, secret: str) -> dict[str, Any]:
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    echo = {"name": "echo", "description": "Echoes.", "parameters": text, "method": "POST", "url": url}
    return {
        "name": name,
        "type": "http",
        "tools": [{**echo, "headers": {"X-Token": f"Bearer ${{secret:{secret}}}"}, "body": {"text": "{text}"}}],
    }


@pytest.mark.rule(35)
async def test_a_secret_is_nowhere_but_at_its_target(
    stack: RunningStack, api: Api, as_mallory: Api, echo: Target, home: Path, spans: OtlpReceiver
) -> None:
    value, name, secret = unique("swordfish"), unique("desk").lower(), unique("TOKEN").replace("-", "_")
    answers = [
        await api.http.put(f"/secrets/{secret}/", json={"value": value}),
        await api.http.put(f"/secrets/{secret}/", json={"value": value, "values": 1}),
        await api.http.put(f"/secrets/{secret}/", json={"value": value + "\n"}),
        await api.http.get(f"/secrets/{secret}/"),
        await api.http.post("/toolsets/", json=toolset(name, echo.url, secret), headers={"Idempotency-Key": unique()}),
        await api.http.get(f"/toolsets/{name}/"),
        await api.http.post(f"/toolsets/{name}/tools/echo/call/", json={"arguments": {"text": "hello"}}),
        await api.http.post(f"/toolsets/{name}/tools/echo/call/", json={"arguments": {"text": "refuse"}}),
        await api.http.get("/tools/", params={"limit": 200}),
        await api.http.get("/events/"),
    ]

    assert [answer.status_code for answer in answers] == [200, 422, 422, 200, 201, 200, 200, 200, 200, 200]
    assert f"{name}.echo" in [tool["name"] for tool in answers[8].json()["tools"]]
    for tried, status in ((answers[6].json(), "completed"), (answers[7].json(), "failed")):
        assert (tried["status"], "Bearer [secret]" in tried["output"]) == (status, True), tried
    session = await api.session("builtin:extractive", tools=[f"{name}.*"])
    label = unique("trace")
    turn = await api.execute(session, f'Call {name}.echo with text "good morning".', x_correlation_id=label)
    answers += [turn, await api.http.get(f"/runtime/{session}/turns/{turn.json()['turn_id']}/")]
    assert [(call["name"], call["status"]) for call in turn.json()["response"]["tool_calls"]] == [
        (f"{name}.echo", "completed")
    ]
    assert answers[-1].json()["toolsets"] == [{"name": name, "version": 1}]
    assert echo.tokens == [f"Bearer {value}"] * 3
    for place in (f"/toolsets/{name}/", f"/secrets/{secret}/"):
        check_error(await as_mallory.http.get(place), 404, "not_found_error")
    traced = await exported(spans, label, f"execute_tool {name}.echo")
    places = [answer.text for answer in answers] + list(stored(stack)) + [await sent(stack), traced, *logged(home)]
    assert [place[:80] for place in places if value in place] == []
    # The search finds what is there: the secret's name and the toolset's.
    assert sum(secret in place for place in places) > 3
    assert sum(name in place for place in places) > 3


def stored(stack: RunningStack) -> Iterator[str]:
    """Every row of every table of every service, as text."""
    for service in DATABASES:
        with psycopg.connect(stack.database(service)) as connection:
            tables = connection.execute(
                "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
                " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            for (table,) in tables:
                for (row,) in connection.execute(f"SELECT t::text FROM {table} t"):  # type: ignore[call-overload]
                    yield row + _bytes_in(row)


def _bytes_in(row: str) -> str:
    """The text of byte columns, which PostgreSQL shows in hexadecimal."""
    found = re.findall(r"\\\\x([0-9a-f]+)", row)
    return "".join(bytes.fromhex(each[: len(each) // 2 * 2]).decode(errors="replace") for each in found)


async def sent(stack: RunningStack) -> str:
    """The whole content of Kafka: keys, values, headers."""
    consumer = AIOKafkaConsumer(
        *(topic.name for topic in with_dead_letters()),
        **stack.kafka.options(),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    parts: list[bytes] = []
    try:
        await consumer.start()
        places = consumer.assignment()
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(list(places))
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                for record in batch:
                    parts += [record.key or b"", record.value or b"", *(value for _, value in record.headers)]
    finally:
        await consumer.stop()
    return b"\n".join(parts).decode(errors="replace")


async def exported(spans: OtlpReceiver, correlation_id: str, last: str) -> str:
    """The traces that the services exported, once the span ``last`` of a correlation is among them."""

    async def complete() -> bool:
        return last in [span.name for span in list(spans.traces[trace_id_of(correlation_id)])]

    await until(complete)
    return b"\n".join(list(spans.bodies)).decode(errors="replace")


def logged(home: Path) -> Iterator[str]:
    for file in sorted(home.rglob("*.log")):
        yield file.read_text(errors="replace")

"""One correlation through all services, seen from outside: its trace, its lines in the logs, and what is in neither."""

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from libs.tracing import trace_id_of
from tests.e2e.api import Api, new_client, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.e2e.test_artifacts import processed, upload
from tests.support.otlp_receiver import OtlpReceiver, SeenSpan
from tests.support.waiting import until

EXECUTE = "POST /api/v1/runtime/{session_id}/execute/"
WANTED = {
    ("aes-gateway", EXECUTE),
    ("aes-gateway", "send runtime-commands"),
    ("aes-gateway", "POST artifacts"),
    ("aes-registry", "POST /internal/agents/normalize"),
    ("aes-runtime", "process runtime-commands"),
    ("aes-runtime", "send runtime-events"),
    ("aes-runtime", "invoke_agent"),
    ("aes-runtime", "chat extractive"),
    ("aes-runtime", "chat stub-fetch"),
    ("aes-runtime", "execute_tool http_get"),
    ("aes-artifacts", "process ingestion-events"),
    ("aes-ingestion", "index document"),
    ("aes-ingestion", "send ingestion-events"),
}


async def test_a_correlation_is_one_trace_without_contents(
    stack: RunningStack, model: HeldModel, spans: OtlpReceiver
) -> None:
    secret, correlation, foreign = unique("secret"), unique("trace"), uuid.uuid4().hex
    async with new_client(stack.base_url, stack.api_key) as client:
        client.headers["x-correlation-id"] = correlation
        client.headers["traceparent"] = f"00-{foreign}-{'2' * 16}-01"
        await _use_everything(Api(client), model, secret)
        await client.get(f"/agent/?name={secret}")
    async with new_client(stack.base_url, f"aes_live_{secret}") as stranger:
        assert (await stranger.get("/agent/")).status_code == 401

    seen: list[SeenSpan] = []

    async def complete() -> bool:
        # The processes send theirs one after the other.
        seen[:] = spans.traces[trace_id_of(correlation)]
        return not _missing(seen) and not _orphans(seen)

    with suppress(AssertionError):
        await until(complete)
    assert (_missing(seen), _orphans(seen)) == (set(), set())
    _check_shape(seen, foreign)
    assert foreign not in spans.traces
    [chat] = [span for span in seen if span.name == "chat extractive"]
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.provider.name"] == "builtin"
    for hidden in (secret, stack.api_key, "sk-of-the-tests"):
        assert not [body for body in spans.bodies if hidden.encode() in body]
        assert [file for file, text in _logs(stack) if hidden in text] == []
    lines = [line for _, text in _logs(stack) for line in text.splitlines() if correlation in line]
    assert lines
    assert [line for line in lines if trace_id_of(correlation) not in line] == []


async def _use_everything(api: Api, model: HeldModel, secret: str) -> None:
    """Secrets in a prompt, in a file, in a tool's arguments and in what it returns."""
    session = await api.session("builtin:extractive", tools=["artifact_read"])
    text = f"The chair of the board is Solveig {secret}."
    document = await upload(api, session, "minutes.txt", text.encode())
    assert (await processed(api, document))["processing_status"] == "ready"
    question = {"type": "text", "text": f"Who is the chair of the board, {secret}?"}
    block = {"type": "file", "source": {"artifact_id": document["artifact_id"]}}
    reply = await api.execute(session, [question, block])
    assert secret in reply.json()["response"]["content"]
    fetching = await api.session("openai:stub-fetch", tools=["http_get"])
    reply = await api.execute(fetching, f"{model.base_url}/{secret}")
    assert [call["name"] for call in reply.json()["response"]["tool_calls"]] == ["http_get"]


def _missing(seen: list[SeenSpan]) -> set[tuple[str, str]]:
    return WANTED - {(span.service, span.name) for span in seen}


def _orphans(seen: list[SeenSpan]) -> set[str]:
    """Spans without a parent in the trace."""
    known = {span.span_id for span in seen}
    return {span.name for span in seen if span.parent_id and span.parent_id not in known}


def _check_shape(seen: list[SeenSpan], foreign: str) -> None:
    """Spans without a parent begin a piece of work; requests are linked to the caller's trace."""
    roots = [span for span in seen if not span.parent_id]
    assert {span.name for span in roots if not span.name.startswith(("GET ", "POST "))} == {"index document"}
    assert {span.service for span in roots if span.name.startswith(("GET ", "POST "))} == {"aes-gateway"}
    assert all(foreign in span.linked for span in roots if span.service == "aes-gateway")
    assert {span.attributes["aes.company_id"] for span in seen if "aes.company_id" in span.attributes} != {""}


def _logs(stack: RunningStack) -> Iterator[tuple[str, str]]:
    for file in Path(stack.home, "logs").glob("*.log"):
        yield file.name, file.read_text(errors="replace")


@pytest.mark.parametrize("service", ["gateway", "registry", "runtime", "ingestion", "artifacts", "timeline"])
def test_every_process_tells_prometheus(stack: RunningStack, service: str) -> None:
    text = stack.metrics(service)
    assert re.search(r"^aes_outbox_parked_total\{", text, re.MULTILINE)
    assert 'route="/health' not in text

"""Builds the same request for the service and the reference app, and checks their answers."""

from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from benchmarks.load.http_client import RequestFailed, Response, post
from benchmarks.load.job import Job

PROMPT = "Summarise in two sentences what we have said so far, and name the open question."
INSTRUCTIONS = "You are a helpful assistant of a small company. Answer briefly and say so when you do not know."


@dataclass(frozen=True)
class Target:
    job: Job
    sessions_path: str
    execute_path: str
    agent: dict[str, Any]
    first_text: bytes
    """Marker in a stream before its first piece of text."""
    last_event: bytes
    headers: dict[str, str]
    message: dict[str, Any] = field(default_factory=lambda: {"content": PROMPT})
    """The body of a turn."""

    def new_session(self) -> bytes:
        return self._post(self.sessions_path, self.agent, {})

    def execute(self, session: str) -> bytes:
        accept = {"Accept": "text/event-stream"} if self.job.stream else {}
        return self._post(self.execute_path.format(session=session), self.message, accept)

    def session_of(self, response: Response) -> str:
        if response.status not in (200, 201):
            raise RequestFailed(f"session creation was answered with {response.status}: {response.body[:500]!r}")
        return str(orjson.loads(response.body)["session_id"])

    def check(self, response: Response) -> None:
        """Checks that a turn completed, with its tool call where one is expected. Raises RequestFailed."""
        if response.status != 200:
            raise RequestFailed(f"a turn was answered with {response.status}: {response.body[:500]!r}")
        if self.job.stream:
            if self.last_event not in response.body:
                raise RequestFailed(f"a stream ended early: {response.body[-500:]!r}")
            return
        body = orjson.loads(response.body)
        if self.job.protocol != "native":
            if not (body.get("output") or body["choices"]):
                raise RequestFailed(f"a turn was answered with something else: {response.body[:500]!r}")
            return
        answer = body["response"]
        if not answer["content"] or len(answer["tool_calls"]) != bool(self.job.tool):
            raise RequestFailed(f"a turn was answered with something else: {response.body[:500]!r}")

    def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> bytes:
        return post(path, f"127.0.0.1:{self.job.port}", orjson.dumps(body), {**self.headers, **headers})


def target(job: Job) -> Target:
    if job.side == "reference":
        return Target(
            job,
            sessions_path="/sessions",
            execute_path="/sessions/{session}/execute",
            agent={"tool": job.tool, "model": job.model, "instructions": INSTRUCTIONS},
            first_text=b"event: delta\n",
            last_event=b"event: completed\n",
            headers={},
        )
    if job.protocol != "native":
        return _openai(job)
    return _native(job)


def _openai(job: Job) -> Target:
    asked = {"model": f"openai:{job.model}", "stream": job.stream}
    if job.protocol == "responses":
        path, first, last = (
            "/openai/v1/responses",
            b"event: response.output_text.delta\n",
            b"event: response.completed\n",
        )
        message = {**asked, "instructions": INSTRUCTIONS, "input": PROMPT}
    else:
        path, first, last = "/openai/v1/chat/completions", b'"delta":{"content":', b"data: [DONE]"
        said = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": PROMPT}]
        message = {**asked, "messages": said}
    bearer = {"Authorization": f"Bearer {job.api_key}"}
    return replace(_native(job), execute_path=path, first_text=first, last_event=last, message=message, headers=bearer)


def _native(job: Job) -> Target:
    return Target(
        job,
        sessions_path="/api/v1/sessions/",
        execute_path="/api/v1/runtime/{session}/execute/",
        agent={
            "name": "benchmark",
            "agent_type": job.agent_type,
            "system_prompt": INSTRUCTIONS,
            "llm_config": {"model": f"openai:{job.model}"},
            "tools": [job.tool] if job.tool else [],
        },
        first_text=b"event: turn.output_text.delta\n",
        last_event=b"event: turn.completed\n",
        headers={"x-api-key": job.api_key},
    )

"""A part is away: the rest does what it can, refuses soon what it cannot, and all comes back by itself."""

import asyncio
from collections.abc import Sequence
from functools import partial

import httpx
import psutil
import pytest

from tests.e2e.api import Api, check_error, configuration, unique
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import until


async def check_writes_refused(api: Api, session: str, agent_path: str) -> None:
    execute = f"/runtime/{session}/execute/"
    await asyncio.gather(
        check_refused(api, "POST", execute, {"content": "lost"}),
        check_refused(api, "POST", execute, {"content": "lost"}, accept="text/event-stream"),
        check_refused(api, "POST", execute, {"content": "lost"}, prefer="respond-async"),
        check_refused(api, "DELETE", f"/sessions/{session}/", None),
        check_refused(api, "POST", "/sessions/", configuration("openai:stub-echo")),
        check_refused(api, "POST", "/agent/", configuration()),
        check_refused(api, "PATCH", agent_path, {"name": "lost"}),
    )


async def check_refused(api: Api, method: str, path: str, body: object, **headers: str) -> None:
    """While what is away stays away until the reply has come: who waited for it would have none."""
    reply = await api.http.request(method, path, json=body, headers=headers)
    check_error(reply, 503, "service_unavailable")
    assert int(reply.headers["retry-after"]) >= 1


async def check_reads(api: Api, session: str, agent_path: str) -> None:
    for path in ("/me/", "/agent/", agent_path, "/sessions/", f"/sessions/{session}/", "/tools/", "/api-keys/"):
        assert (await api.http.get(path)).status_code == 200
    assert [message["content"] for message in await api.messages(session)] == ["before", "You said: before"]
    assert (await api.http.post("/agent/validate/", json=configuration())).json()["valid"] is True


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("frozen", marks=pytest.mark.outage("Kafka, frozen")),
        pytest.param("dead", marks=pytest.mark.outage("Kafka, dead")),
    ],
)
async def test_kafka_is_away(breakable: RunningStack, api: Api, how: str) -> None:
    session = await api.session("openai:stub-echo")
    assert (await api.execute(session, "before")).status_code == 200
    agent = (await api.http.post("/agent/", json=configuration())).json()
    path = f"/agent/{agent['id']}/"
    with breakable.stopped("kafka") if how == "frozen" else breakable.nobody_restarts():
        if how == "dead":
            breakable.kill("kafka")
        await check_writes_refused(api, session, path)
        await check_reads(api, session, path)
        # Also when the bus is known to be away.
        await check_writes_refused(api, session, path)
    text = unique("after")
    headers = {"idempotency-key": text}
    other = await api.session("openai:stub-echo")
    reply = await api.persistently("POST", f"/runtime/{other}/execute/", json={"content": text}, headers=headers)
    assert reply.json()["response"]["content"] == f"You said: {text}"
    assert len(await api.messages(other)) == 2


async def test_a_turn_that_ends_while_kafka_is_away_is_answered(
    breakable: RunningStack, api: Api, model: HeldModel
) -> None:
    session, text = await api.session("openai:stub-hold-echo"), unique("meanwhile")
    with model.held():
        caller = asyncio.create_task(api.execute(session, text))
        await until(lambda: _asked(model, text))
        with breakable.stopped("kafka"):
            model.release()
            # The database has the reply, whose event cannot leave. Whoever waits for it is answered by the look-up.
            await until(lambda: _answered(api, session))
    reply = await caller
    assert reply.status_code == 200
    assert reply.json()["response"]["content"] == f"You said: {text}"
    assert len(model.asked(text)) == 1


@pytest.mark.outage("runtime")
async def test_the_runtime_is_away(breakable: RunningStack, api: Api, model: HeldModel) -> None:
    session, text = await api.session("openai:stub-echo"), unique("away")
    with breakable.nobody_restarts():
        killed = breakable.kill("runtime")
        for path in (f"/sessions/{session}/", f"/runtime/{session}/messages/", "/sessions/", "/models/"):
            reply = await api.http.get(path)
            check_error(reply, 503, "service_unavailable")
            assert int(reply.headers["retry-after"]) >= 1
        # The bus has taken it, and nobody takes it up.
        reply = await api.execute(session, text, idempotency_key=text)
        error = check_error(reply, 504, "timeout_error")
        assert "Idempotency-Key" in error["message"]
        assert (await api.http.get("/agent/")).status_code == 200
    await asyncio.to_thread(breakable.wait_replaced, "runtime", killed)
    # It is carried out all the same; the repetition finds it.
    path, headers = f"/runtime/{session}/execute/", {"idempotency-key": text}
    reply = await api.persistently("POST", path, json={"content": text}, headers=headers)
    assert reply.json()["response"]["content"] == f"You said: {text}"
    assert [message["role"] for message in await api.messages(session)] == ["user", "assistant"]
    assert len(model.asked(text)) == 1


@pytest.mark.outage("registry")
async def test_the_registry_is_away(breakable: RunningStack, api: Api) -> None:
    session = await api.session()
    with breakable.nobody_restarts():
        killed = breakable.kill("registry")
        for method, path, body in (
            ("GET", "/agent/", None),
            ("POST", "/agent/validate/", configuration()),
            ("POST", "/sessions/", {**configuration(), "system_prompt": unique("never checked")}),
        ):
            check_error(await api.http.request(method, path, json=body), 503, "service_unavailable")
        # Neither a turn needs it, nor a session of a configuration that was checked a moment ago.
        assert (await api.execute(session, "hello")).status_code == 200
    await asyncio.to_thread(breakable.wait_replaced, "registry", killed)
    assert (await api.http.get("/agent/")).status_code == 200


@pytest.mark.outage("PostgreSQL")
async def test_the_database_is_away(breakable: RunningStack, api: Api, anonymous: httpx.AsyncClient) -> None:
    session, text = await api.session("openai:stub-echo"), unique("away")
    unknown = {"x-api-key": "aes_" + "A" * 43}
    with breakable.nobody_restarts():
        serving = psutil.Process(breakable.pid("postgres")).children()
        killed = breakable.kill("postgres")
        # Until they notice, the processes of the killed server answer.
        await until(partial(_have_ended, serving))
        replies = await asyncio.gather(
            *(api.http.get(path) for path in ("/sessions/", f"/sessions/{session}/", "/agent/", "/api-keys/")),
            api.http.post("/api-keys/", json={"name": "lost"}),
            api.execute(session, text, idempotency_key=text),
        )
        for reply in (*replies, await anonymous.get("/me/", headers=unknown)):
            check_error(reply, 503, "service_unavailable")
            assert int(reply.headers["retry-after"]) >= 1
    await asyncio.to_thread(breakable.wait_replaced, "postgres", killed)
    path, headers = f"/runtime/{session}/execute/", {"idempotency-key": text}
    reply = await api.persistently("POST", path, json={"content": text}, headers=headers)
    assert reply.json()["response"]["content"] == f"You said: {text}"
    assert len(await api.messages(session)) == 2


async def _asked(model: HeldModel, text: str) -> bool:
    return bool(model.asked(text))


async def _have_ended(processes: Sequence[psutil.Process]) -> bool:
    return all(_has_ended(process) for process in processes)


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def _answered(api: Api, session: str) -> bool:
    return len(await api.messages(session)) == 2

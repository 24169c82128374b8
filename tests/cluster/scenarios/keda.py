"""KEDA scales workers by what waits for them, with the overlay's own triggers and thresholds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Final

from tests.cluster import programs
from tests.cluster.cluster import OVERLAYS, Installation, Manifest, Say, ScenarioFailed, apply, ask, rendered, until
from tests.cluster.node import limit_memory
from tests.e2e.event_log import ENDS, EventLog, count_by_subject
from tests.rolling_restart.client import Client, unique
from tests.rolling_restart.load import MODEL

_NAMESPACE: Final = "keda"
_IMAGES: Final = {"keda-operator": "localhost/keda:1", "keda-metrics-apiserver": "localhost/keda-adapter:1"}
# More than the thresholds let two workers keep; a turn takes this long.
_SESSIONS, _TURNS_EACH, _MODEL_SECONDS = 60, 6, 8
_FILES: Final = 150
SCALED: Final = ("runtime-worker", "ingestion-streams")


def workers_follow_their_work(small: Installation, say: Say) -> None:
    limit_memory(12 * 2**30)
    install(small.namespace, say)
    apply(*scaled_objects(rendered(OVERLAYS / "keda"), small.namespace))
    small.ask("set", "env", "deployment/runtime-worker", f"AES_RUNTIME_BUILTIN_MODEL_DELAY_SECONDS={_MODEL_SECONDS}")
    waited = until(lambda: (small.ready("runtime-worker"), small.ready("ingestion-streams")) == (2, 0), "idle", 300)
    say(f"idle after {waited:.0f} s: 2 of runtime-worker, none of ingestion-streams")
    asyncio.run(_turns(small, say))
    asyncio.run(_files(small, say))
    for name in SCALED:
        small.ask("delete", "scaledobject", name)
    small.ask("set", "env", "deployment/runtime-worker", "AES_RUNTIME_BUILTIN_MODEL_DELAY_SECONDS=0.3")
    for name in SCALED:
        small.scale(name, 1)


def install(watched: str, say: Say) -> None:
    """The operator and its server of metrics from KEDA's own manifests, and the metrics server that CPU is asked of."""
    apply(*_metrics_server())
    manifests = rendered(programs.KEDA.directory / "config" / "minimal")
    for one in manifests:
        if one["kind"] == "Deployment":
            _adapt(one, watched)
    # Resources of a kind that is new are refused until it is established.
    apply(*(one for one in manifests if one["kind"] in ("CustomResourceDefinition", "Namespace")))
    ask("wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s")
    apply(*manifests)
    for name in _IMAGES:
        ask("--namespace", _NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=180s", seconds=200)
    ask(
        "wait", "--for=condition=Available", "apiservice/v1beta1.external.metrics.k8s.io", "--timeout=120s", seconds=150
    )
    ask("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=120s", seconds=150)
    say(f"KEDA {programs.KEDA.version} and the metrics server answer")


def _adapt(deployment: Manifest, watched: str) -> None:
    pod = deployment["spec"]["template"]["spec"]
    # The servers of `small` are known by names within their namespace.
    pod["dnsConfig"] = {"searches": [f"{watched}.svc.cluster.local"]}
    (container,) = pod["containers"]
    container |= {"image": _IMAGES[deployment["metadata"]["name"]], "imagePullPolicy": "Never"}
    container.pop("command", None)
    container["args"] = [argument for argument in container["args"] if argument.startswith("-")]
    container["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}


def _metrics_server() -> list[Manifest]:
    manifests = rendered(programs.METRICS_SERVER.directory / "manifests" / "base")
    for one in manifests:
        if one["kind"] == "Deployment":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            container |= {"image": "localhost/metrics-server:1", "imagePullPolicy": "Never"}
            authority = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
            container["args"] += [f"--kubelet-certificate-authority={authority}", "--metric-resolution=15s"]
            container["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    return manifests


def scaled_objects(overlay: Iterable[Manifest], namespace: str) -> list[Manifest]:
    """The overlay's own for a Kafka without encryption; going down does not take the minutes that it should."""
    found = []
    for one in deepcopy(list(overlay)):
        if one["kind"] == "TriggerAuthentication" and one["metadata"]["name"] != "kafka":
            found.append(one)
        elif one["kind"] == "ScaledObject" and one["metadata"]["name"] in SCALED:
            one["spec"]["cooldownPeriod"] = 30
            quick = {"scaleDown": {"stabilizationWindowSeconds": 20}}
            one["spec"]["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": quick}}
            for trigger in one["spec"]["triggers"]:
                if trigger["type"] == "kafka":
                    _unencrypted(trigger)
            found.append(one)
    for one in found:
        one["metadata"]["namespace"] = namespace
    return found


def _unencrypted(trigger: dict[str, Any]) -> None:
    trigger["metadata"]["bootstrapServers"] = "kafka:9092"
    for name in ("sasl", "tls"):
        del trigger["metadata"][name]
    del trigger["authenticationRef"]


async def _turns(small: Installation, say: Say) -> None:
    """Turns that wait make workers; each turn ends once, and the workers go again."""
    client = Client([small.address()], small.api_key)
    try:
        sessions = await asyncio.gather(*(_session(client) for _ in range(_SESSIONS)))
        labels = {unique("turn"): session for session in sessions for _ in range(_TURNS_EACH)}
        turns = await asyncio.gather(*(_begin(client, session, label) for label, session in labels.items()))
        say(f"{len(turns)} turns wait or run")
        most = await asyncio.to_thread(_most, small, "runtime-worker", 3, 2)
        say(f"runtime-worker went from 2 to {most} and back to 2")
        states = Counter([await _status(client, *turn) for turn in turns])
        if states != {"completed": len(turns)}:
            raise ScenarioFailed(f"of {len(turns)} turns: {dict(states)}")
        ends = count_by_subject(await EventLog("kafka:9092").ended(labels), *ENDS)
        wrong = {turn for _, turn in turns if ends[turn] != 1}
        if wrong:
            raise ScenarioFailed(f"{len(wrong)} turns did not end exactly once: {sorted(wrong)[:3]}")
        say(f"{len(turns)} turns completed, each once")
    finally:
        await client.close()


async def _session(client: Client) -> str:
    agent = {"name": "Scaled", "agent_type": "llm_agent", "llm_config": {"model": MODEL}}
    return str((await client.call("POST", "/sessions/", expect=201, json=agent)).json()["session_id"])


async def _begin(client: Client, session: str, label: str) -> tuple[str, str]:
    headers = {"x-correlation-id": label, "prefer": "respond-async"}
    path, body = f"/runtime/{session}/execute/", {"content": f"What is known? ({label})"}
    reply = await client.call("POST", path, expect=202, key=label, headers=headers, json=body)
    return session, str(reply.json()["turn_id"])


async def _status(client: Client, session: str, turn: str) -> str:
    return str((await client.call("GET", f"/runtime/{session}/turns/{turn}/", expect=200)).json()["status"])


async def _files(small: Installation, say: Say) -> None:
    """Files that wait bring the first streams process; when all are searchable, none is left."""
    client = Client([small.address()], small.api_key)
    try:
        words = [unique("word").replace("-", "") for _ in range(_FILES)]
        files = [("file", (f"{word}.md", f"# About {word}\n\nThe {word} is kept here.\n")) for word in words]
        ids: list[str] = []
        for start in range(0, len(files), 10):
            made = await client.call("POST", "/files/", expect=201, files=files[start : start + 10])
            ids += [file["id"] for file in made.json()["files"]]
        body = {"name": unique("base"), "file_ids": ids}
        base = (await client.call("POST", "/knowledge-bases/", expect=201, json=body)).json()["id"]
        most = await asyncio.to_thread(_most, small, "ingestion-streams", 1, 0)
        say(f"ingestion-streams went from 0 to {most} and back to 0")
        found = [await _passages(client, base, word) for word in words]
        if {*found} != {1}:
            raise ScenarioFailed(f"passages by file: {Counter(found)}")
        say(f"{len(words)} files are found, each once")
    finally:
        await client.close()


async def _passages(client: Client, base: str, word: str) -> int:
    body = {"query": word, "mode": "keyword", "top_k": 10}
    reply = await client.call("POST", f"/knowledge-bases/{base}/search/", expect=200, json=body)
    return len(reply.json()["results"])


def _most(small: Installation, deployment: str, wanted: int, rest: int) -> int:
    """The largest number of ready pods until there are `rest` again. Raises ScenarioFailed below `wanted`."""
    counts: list[int] = []

    def seen(condition: Callable[[int], bool]) -> bool:
        counts.append(small.ready(deployment))
        return condition(counts[-1])

    until(lambda: seen(lambda count: count >= wanted), f"there are {wanted} of {deployment}", 300)
    until(lambda: seen(lambda count: count <= rest), f"there are {rest} of {deployment} again", 600)
    return max(counts)

"""Pods that are replaced, killed, or have to leave their node."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster import settings
from tests.cluster.cluster import Installation, Say, ScenarioFailed, ask, attempt, until
from tests.cluster.loaded import under_load
from tests.cluster.node import environment, kill, kubectl

KILLED = ("gateway", "timeline-log", "runtime-worker", "ingestion-streams", "artifacts-worker", "registry")


def rolling_update(small: Installation, say: Say) -> None:
    """Every Deployment is rolled, one replica each: the new pod is ready before the old one goes."""

    def roll() -> None:
        for deployment in small.deployments():
            began = time.monotonic()
            small.ask("rollout", "restart", f"deployment/{deployment}")
            small.ask("rollout", "status", f"deployment/{deployment}", "--timeout=180s", seconds=200)
            say(f"  {deployment:20} rolled in {time.monotonic() - began:4.1f} s")

    say(f"while everything was rolled: {under_load(small, roll)}")


def pods_killed(small: Installation, say: Say) -> None:
    """A process of each kind dies without a warning, the only one of its Deployment."""

    def kill() -> None:
        for deployment in KILLED:
            say(f"  {deployment:20} killed, another one is ready after {_killed(small, deployment):4.1f} s")

    say(f"while pods were killed: {under_load(small, kill, killed=True)}")


def _killed(small: Installation, deployment: str) -> float:
    (victim, *_) = small.pods(deployment)
    name = victim["metadata"]["name"]
    # Before the API server knows of it: a pod that is deleted, by force as well, is asked to end first.
    kill(victim)
    small.ask("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")

    def replaced() -> bool:
        names = {pod["metadata"]["name"] for pod in small.pods(deployment)}
        return name not in names and not small.missing()

    return until(replaced, f"{deployment} is back")


def readiness(small: Installation, say: Say) -> None:
    """Without its database a pod is not ready, gets no requests and is not restarted; with it, it is again."""
    before = _restarts(small, "registry")
    small.ask("scale", "statefulset/postgres", "--replicas=0")
    gone = until(lambda: small.ready("registry") == 0, "registry is not ready without its database", 120)
    endpoints = small.objects("endpointslices", "--selector=kubernetes.io/service-name=registry")
    ready = [one for part in endpoints for one in part.get("endpoints") or [] if one["conditions"]["ready"]]
    if ready:
        raise ScenarioFailed(f"{len(ready)} pods of registry get requests that are not ready")
    small.ask("scale", "statefulset/postgres", "--replicas=1")
    back = small.wait_ready()
    if _restarts(small, "registry") != before:
        raise ScenarioFailed("registry was restarted while its database was away")
    say(f"without PostgreSQL registry leaves its Service after {gone:.0f} s; all are ready {back:.0f} s later")


def _restarts(small: Installation, deployment: str) -> list[tuple[str, int]]:
    pods = small.pods(deployment)
    return [(pod["metadata"]["name"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in pods]


def node_drained(small: Installation, say: Say) -> None:
    """Budgets hold back evictions while nothing takes a pod's place; then every pod is replaced, one at a time."""
    doubled = ("gateway", "runtime", "runtime-worker", "registry")
    for deployment in doubled:
        small.scale(deployment, 2)
    refused = _eviction_without_a_place(small, "gateway")
    say(f"with one of two gateways evicted and no node for another, the second stays: {refused}")
    say(f"while the node was drained: {under_load(small, lambda: _drain(small, say))}")
    for deployment in doubled:
        small.scale(deployment, 1)


def _eviction_without_a_place(small: Installation, deployment: str) -> str:
    """Evicts both pods while nothing takes their place; returns the API server's answer to the second."""
    first, second = (pod["metadata"]["name"] for pod in small.pods(deployment))
    with _cordoned():
        _evict(small, first)
        until(lambda: small.ready(deployment) == 1, f"one {deployment} is gone", 60)
        said = _evict(small, second)
        if said is None:
            raise ScenarioFailed(f"both pods of {deployment} were evicted")
    small.wait_ready()
    return said


def _evict(small: Installation, pod: str) -> str | None:
    """None when it was evicted."""
    names = f'{{"name": "{pod}", "namespace": "{small.namespace}"}}'
    body = f'{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {names}}}'
    path = f"/api/v1/namespaces/{small.namespace}/pods/{pod}/eviction"
    done = attempt("create", f"--raw={path}", "--filename=-", given=body)
    return None if done.returncode == 0 else done.stderr.strip()


@contextmanager
def _cordoned() -> Iterator[None]:
    ask("cordon", settings.NODE)
    try:
        yield
    finally:
        ask("uncordon", settings.NODE)


def _drain(small: Installation, say: Say) -> None:
    """The pods of all processes leave; the same node, let in again, is the one that takes their successors."""
    selector = "app.kubernetes.io/component in (api, worker, streams, log, webhooks)"
    before = {pod["metadata"]["name"] for pod in small.objects("pods", f"--selector={selector}")}
    began = time.monotonic()
    command = kubectl("drain", settings.NODE, "--delete-emptydir-data", "--timeout=300s", f"--pod-selector={selector}")
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while process.poll() is None:
        # Drain marks the node once, at its beginning.
        ask("uncordon", settings.NODE)
        time.sleep(1)
    said = process.communicate()[0]
    if process.returncode != 0:
        raise ScenarioFailed(f"the node could not be drained: {said[-2000:]}")
    left = before & {pod["metadata"]["name"] for pod in small.objects("pods", f"--selector={selector}")}
    if left:
        raise ScenarioFailed(f"still there after the drain: {', '.join(sorted(left))}")
    small.wait_ready()
    held = said.count("Cannot evict pod")
    seconds = time.monotonic() - began
    say(f"  {len(before)} pods were replaced in {seconds:.0f} s; budgets held back {held} evictions for a while")

"""The API server takes every overlay whole; `dev` also runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.cluster.cluster import (
    OVERLAYS,
    Installation,
    Manifest,
    Say,
    ScenarioFailed,
    apply,
    ask,
    objects,
    rendered,
    until,
)
from tests.cluster.node import limit_memory
from tests.cluster.programs import KEDA

_SCHEMAS: Final = Path(__file__).parents[2] / "contract" / "kubernetes" / "custom_resources"
_STRIMZI: Final = {
    "Kafka": "kafkas",
    "KafkaNodePool": "kafkanodepools",
    "KafkaTopic": "kafkatopics",
    "KafkaUser": "kafkausers",
}
_NAMESPACE: Final = "agent-execution-service"
_SECRETS: Final = OVERLAYS.parent / "secrets.example.yaml"
_OTHERS: Final = ("production", "managed-kafka", "keda")


def accepted(small: Installation, say: Say) -> None:
    """One after the other; `small` gives its place to them."""
    small.remove()
    limit_memory(12 * 2**30)
    dev = Installation("dev", "agent-execution-service-dev")
    dev.apply()
    say(f"dev: applied; everything is ready after {dev.wait_ready():.0f} s")
    dev.remove()
    apply(
        *rendered(KEDA.directory / "config" / "crd"), *(_definition(kind, plural) for kind, plural in _STRIMZI.items())
    )
    ask("wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s")
    for overlay in _OTHERS:
        _apply(overlay, say)


def _apply(overlay: str, say: Say) -> None:
    """With the Secrets of the example, as the page says; a second time nothing changes."""
    ask("create", "namespace", _NAMESPACE)
    ask("--namespace", _NAMESPACE, "apply", f"--filename={_SECRETS}")
    directory = OVERLAYS / overlay
    said = ask("apply", f"--kustomize={directory}")
    again = ask("apply", f"--kustomize={directory}")
    changed = [line for line in again.splitlines() if not line.endswith("unchanged")]
    if changed:
        raise ScenarioFailed(f"{overlay} changes when it is applied again: {changed}")
    _pods_are_let_in(overlay)
    say(f"{overlay}: {len(said.splitlines())} objects, pods of all processes are let in, unchanged the second time")
    ask("delete", "namespace", _NAMESPACE, "--timeout=180s", seconds=200)


def _pods_are_let_in(overlay: str) -> None:
    """Finds Deployments whose pods the namespace's pod security or a missing account refuses."""

    def without() -> list[str]:
        deployments = objects("--namespace", _NAMESPACE, "deployments")
        wanted = [one for one in deployments if one["spec"].get("replicas", 1)]
        return [one["metadata"]["name"] for one in wanted if not one.get("status", {}).get("replicas")]

    try:
        until(lambda: not without(), "each Deployment has a pod", 60)
    except ScenarioFailed:
        raise ScenarioFailed(f"{overlay}: no pods of {', '.join(without())}") from None


def _definition(kind: str, plural: str) -> Manifest:
    """A resource of Strimzi's, by the schema that the tests hold the manifests against."""
    schema = json.loads((_SCHEMAS / f"{kind}.json").read_text())
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kafka.strimzi.io"},
        "spec": {
            "group": "kafka.strimzi.io",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }

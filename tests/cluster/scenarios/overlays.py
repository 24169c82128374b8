"""The API server takes every overlay whole; `dev` also runs."""

from __future__ import annotations

from typing import Final

from tests.cluster.cluster import MANIFESTS, OVERLAYS, Installation, Say, ScenarioFailed, ask, attempt, objects, until
from tests.cluster.node import limit_memory
from tests.cluster.operators import define_resources

DEV: Final = Installation(MANIFESTS / "dev", "agent-execution-service-dev")
_NAMESPACE: Final = "agent-execution-service"
_SECRETS: Final = OVERLAYS.parent / "secrets.example.yaml"
_OTHERS: Final = ("production", "managed-kafka", "keda")


def accepted(small: Installation, say: Say) -> None:
    """One after the other; `small` gives its place to them."""
    small.remove()
    limit_memory(12 * 2**30)
    DEV.apply()
    say(f"dev: applied; everything is ready after {DEV.wait_ready():.0f} s")
    DEV.remove()
    define_resources()
    for overlay in _OTHERS:
        _apply(overlay, say)


def _apply(overlay: str, say: Say) -> None:
    """With the Secrets of the example, as the page says; a second time nothing changes."""
    ask("create", "namespace", _NAMESPACE)
    ask("--namespace", _NAMESPACE, "apply", f"--filename={_SECRETS}")
    directory = OVERLAYS / overlay
    said = ask("apply", f"--kustomize={directory}")
    # What `apply` says of a second time is no help: `configured`, too, of defaults that a patch names again.
    again = attempt("diff", f"--kustomize={directory}")
    if again.returncode != 0:
        raise ScenarioFailed(f"{overlay} would change when it is applied again: {again.stdout or again.stderr}")
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

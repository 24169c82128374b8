"""The overlay `small` on a node of 4 GB."""

from __future__ import annotations

from tests.cluster.cluster import Installation, Say, ScenarioFailed


def fits_a_small_node(small: Installation, say: Say) -> None:
    """Everything becomes ready, and nothing is ended for want of memory."""
    small.apply()
    say(f"applied; everything is ready after {small.wait_ready():.0f} s")
    small.take_key()
    # Clients of the other scenarios find turns under way.
    small.ask("set", "env", "deployment/runtime-worker", "AES_RUNTIME_BUILTIN_MODEL_DELAY_SECONDS=0.3")
    small.wait_ready()
    ended = [reason for pod in small.objects("pods") for reason in _ends(pod) if reason == "OOMKilled"]
    if ended:
        raise ScenarioFailed(f"{len(ended)} containers were ended because memory ran out")
    for name, megabytes in sorted(memory(small).items()):
        say(f"  {name:20} {megabytes:6.0f} MB")


def memory(installation: Installation) -> dict[str, float]:
    """Megabytes of each container that runs, as the kernel counts them against its limit, by pod's owner."""
    found = {}
    for pod in installation.objects("pods", "--field-selector=status.phase=Running"):
        name = pod["metadata"]["name"]
        labels = pod["metadata"]["labels"]
        owner = "-".join(
            labels[key] for key in ("app.kubernetes.io/name", "app.kubernetes.io/component") if key in labels
        )
        usage = installation.ask("exec", name, "--", "cat", "/sys/fs/cgroup/memory/memory.stat")
        statistics = dict(line.split() for line in usage.splitlines())
        found[owner] = (int(statistics["total_rss"]) + int(statistics["total_shmem"])) / 1e6
    return found


def _ends(pod: dict[str, dict[str, list[dict[str, dict[str, dict[str, str]]]]]]) -> list[str]:
    statuses = pod["status"].get("containerStatuses", [])
    states = [status.get(when, {}) for status in statuses for when in ("state", "lastState")]
    return [state["terminated"]["reason"] for state in states if "terminated" in state]

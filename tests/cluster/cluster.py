"""The running cluster as scenarios use it: kubectl, its answers, and an installation in one namespace."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local.home import PROJECT_ROOT
from tests.cluster import settings
from tests.cluster.node import environment, kubectl
from tests.rolling_restart.spread import total
from tests.rolling_restart.targets import read

OVERLAYS: Final = PROJECT_ROOT / "deploy" / "k8s" / "overlays"
MANIFESTS: Final = Path(__file__).parent / "manifests"
_ASKED_SECONDS: Final = 120.0
_READY_SECONDS: Final = 600.0
Manifest = dict[str, Any]
Say = Callable[[str], None]


class ScenarioFailed(Exception):
    """A promise of the project did not hold in the cluster."""


def ask(*arguments: str, given: str | None = None, seconds: float = _ASKED_SECONDS) -> str:
    """Runs kubectl and returns its output. Raises ScenarioFailed with its message."""
    done = attempt(*arguments, given=given, seconds=seconds)
    if done.returncode != 0:
        raise ScenarioFailed(f"kubectl {' '.join(arguments)}: {(done.stderr or done.stdout).strip()[-3000:]}")
    return done.stdout


def attempt(
    *arguments: str, given: str | None = None, seconds: float = _ASKED_SECONDS
) -> subprocess.CompletedProcess[str]:
    command = kubectl(*arguments)
    try:
        return subprocess.run(
            command, input=given, capture_output=True, text=True, env=environment(), timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise ScenarioFailed(f"kubectl {' '.join(arguments)}: no answer within {seconds:g} s") from None


def objects(*arguments: str) -> list[Manifest]:
    found: Manifest = json.loads(ask("get", *arguments, "--output=json"))
    items: list[Manifest] = found.get("items", [found])
    return items


def apply(*manifests: Manifest) -> None:
    """By the server's own merge: some resources are too large for what kubectl notes beside them."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    ask("apply", "--server-side", "--force-conflicts", "--filename=-", given=json.dumps(listed))


def rendered(directory: Path) -> list[Manifest]:
    """Manifests of a kustomization, as the API server gets them."""
    return [one for one in yaml.safe_load_all(ask("kustomize", str(directory))) if one]


def until(condition: Callable[[], bool], what: str, seconds: float = _READY_SECONDS) -> float:
    """Returns after how many seconds it held. Raises ScenarioFailed."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise ScenarioFailed(f"waited {seconds:g} s in vain until {what}")
        time.sleep(1)
    return time.monotonic() - began


@dataclass
class Installation:
    """A kustomization in its namespace."""

    directory: Path
    namespace: str

    @property
    def api_key(self) -> str:
        """Its first key, once a scenario has taken it."""
        return self._key_file.read_text()

    def take_key(self) -> None:
        """Fetches the first key, which can be done once, for scenarios to come."""
        until(lambda: bool(self.objects("job/first-key")[0].get("status", {}).get("ready")), "there is a first key")
        take = ("python", "-m", "cli", "keys", "take", "/first-key/key")
        self._key_file.write_text(self.ask("exec", "job/first-key", "--container=job", "--", *take).split()[-1])

    @property
    def _key_file(self) -> Path:
        return settings.STATE / f"{self.namespace}-key"

    @property
    def _volumes(self) -> Path:
        return settings.STATE / "data" / "volumes" / self.namespace

    def ask(self, *arguments: str, seconds: float = _ASKED_SECONDS) -> str:
        return ask("--namespace", self.namespace, *arguments, seconds=seconds)

    def objects(self, *arguments: str) -> list[Manifest]:
        return objects("--namespace", self.namespace, *arguments)

    def apply(self) -> None:
        """As a user does it, but for the volumes, which a cluster makes by itself."""
        for claim in claims(rendered(self.directory)):
            directory = self._volumes / claim
            directory.mkdir(parents=True, exist_ok=True)
            apply(volume(self.namespace, claim, str(directory)))
        ask("apply", f"--kustomize={self.directory}")
        # Names of its Services without the namespace, as Kafka tells its own.
        domains = ("svc.cluster.local", "cluster.local")
        search = " ".join((f"{self.namespace}.svc.cluster.local", *domains))
        (settings.STATE / "resolv.conf").write_text(f"nameserver {settings.DNS}\nsearch {search}\n")

    def wait_ready(self) -> float:
        """Until all replicas are ready and all Jobs but those that wait for somebody are done."""
        try:
            return until(lambda: not self.missing(), "everything is ready")
        except ScenarioFailed as failure:
            raise ScenarioFailed(f"{failure}: {self.missing()}\n{self.ask('get', 'pods')}") from None

    def missing(self) -> list[str]:
        found = [
            one["metadata"]["name"]
            for one in self.objects("deployments,statefulsets")
            if not complete(one["spec"].get("replicas", 1), one["metadata"]["generation"], one.get("status", {}))
        ]
        jobs = [one for one in self.objects("jobs") if one["metadata"]["name"] != "first-key"]
        return found + [one["metadata"]["name"] for one in jobs if not one.get("status", {}).get("succeeded")]

    def deployments(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.objects("deployments")]

    def pods(self, deployment: str) -> list[Manifest]:
        """Running pods without those that are about to end."""
        (found,) = self.objects(f"deployment/{deployment}")
        labels = found["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        pods = self.objects("pods", f"--selector={selector}", "--field-selector=status.phase=Running")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def ready(self, deployment: str) -> int:
        (found,) = self.objects(f"deployment/{deployment}")
        return int(found["status"].get("readyReplicas", 0))

    def scale(self, deployment: str, replicas: int) -> float:
        """Returns after how many seconds that many were ready."""
        began = time.monotonic()
        self.ask("scale", f"deployment/{deployment}", f"--replicas={replicas}")
        self.ask("rollout", "status", f"deployment/{deployment}", "--timeout=180s", seconds=200)
        until(lambda: len(self.pods(deployment)) == replicas, f"{deployment} has {replicas} pods", 180)
        return time.monotonic() - began

    def address(self, service: str = "gateway") -> str:
        (found,) = self.objects(f"service/{service}")
        return f"http://{found['spec']['clusterIP']}:{found['spec']['ports'][0]['port']}"

    def metric(self, deployment: str, name: str) -> float:
        """The sum over its pods and over all labels."""
        texts = (read(f"http://{pod['status']['podIP']}:8000/metrics") for pod in self.pods(deployment))
        return sum(total(text, name) or 0.0 for text in texts if text)

    @contextmanager
    def forwarded(self, service: str, port: int, own: int, path: str) -> Iterator[str]:
        """A service's address by a port-forward, as somebody who tries it out reaches it, once `path` answers."""
        command = kubectl("--namespace", self.namespace, "port-forward", f"service/{service}", f"{port}:{own}")
        process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
        try:
            until(lambda: read(f"http://127.0.0.1:{port}{path}") is not None, "the port is forwarded", 30)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()

    def remove(self) -> None:
        ask("delete", "namespace", self.namespace, "--ignore-not-found", "--timeout=180s", seconds=200)
        for volume in objects("persistentvolumes"):
            if volume["spec"]["claimRef"]["namespace"] == self.namespace:
                ask("delete", "persistentvolume", volume["metadata"]["name"])
        shutil.rmtree(self._volumes, ignore_errors=True)


def complete(wanted: int, generation: int, status: Manifest) -> bool:
    current = status.get("observedGeneration", 0) >= generation
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")]
    return current and counts == [wanted] * 3


def claims(manifests: list[Manifest]) -> list[str]:
    names = [one["metadata"]["name"] for one in manifests if one["kind"] == "PersistentVolumeClaim"]
    for one in manifests:
        if one["kind"] == "StatefulSet":
            templates = one["spec"].get("volumeClaimTemplates", [])
            names += [f"{template['metadata']['name']}-{one['metadata']['name']}-0" for template in templates]
    return names


def volume(namespace: str, claim: str, directory: str) -> Manifest:
    """A directory of the node for that claim alone; its owner is what the pod asks for."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [settings.NODE]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{claim}"},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": namespace, "name": claim},
            "local": {"path": directory},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }

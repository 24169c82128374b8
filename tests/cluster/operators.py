"""The operators that overlays build on: KEDA and the metrics server run, Strimzi's resources are defined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.cluster import programs
from tests.cluster.cluster import Manifest, Say, apply, ask, rendered

_SCHEMAS: Final = Path(__file__).parents[1] / "contract" / "kubernetes" / "custom_resources"
_STRIMZI: Final = {
    "Kafka": "kafkas",
    "KafkaNodePool": "kafkanodepools",
    "KafkaTopic": "kafkatopics",
    "KafkaUser": "kafkausers",
}
_NAMESPACE: Final = "keda"
_IMAGES: Final = {"keda-operator": "localhost/keda:1", "keda-metrics-apiserver": "localhost/keda-adapter:1"}
_AUTHORITY: Final = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"


def define_resources() -> None:
    """KEDA's kinds of resources, and Strimzi's by the schemas that tests hold the manifests against."""
    strimzi = (_definition(kind, plural) for kind, plural in _STRIMZI.items())
    apply(*rendered(programs.KEDA.directory / "config" / "crd"), *strimzi)
    # A resource of a kind that is new is refused until its definition is established.
    ask("wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s")


def run_keda(say: Say) -> None:
    """Operator and server of metrics from KEDA's own manifests, and the metrics server, which is asked for CPU."""
    define_resources()
    manifests = [*_metrics_server(), *rendered(programs.KEDA.directory / "config" / "minimal")]
    for one in manifests:
        if one["kind"] == "Deployment" and one["metadata"]["name"] in _IMAGES:
            _adapt(one)
    apply(*(one for one in manifests if one["kind"] == "Namespace"))
    apply(*manifests)
    for name in _IMAGES:
        ask("--namespace", _NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=180s", seconds=200)
    for group in ("external.metrics.k8s.io", "metrics.k8s.io"):
        ask("wait", "--for=condition=Available", f"apiservice/v1beta1.{group}", "--timeout=120s", seconds=150)
    say(f"KEDA {programs.KEDA.version} and the metrics server answer")


def _adapt(deployment: Manifest) -> None:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
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
            container["args"] += [f"--kubelet-certificate-authority={_AUTHORITY}", "--metric-resolution=15s"]
            container["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    return manifests


def _definition(kind: str, plural: str) -> Manifest:
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

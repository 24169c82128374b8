"""The components for the Prometheus operator and for traces, on top of the base."""

from typing import Any

import kubernetes_validate
import pytest

from deploy.k8s import alert_rules
from tests.contract.kustomize import containers_of, of_kind, rendered


@pytest.fixture
def manifests() -> tuple[dict[str, Any], ...]:
    return rendered("monitoring")


def test_the_rules_are_current() -> None:
    assert alert_rules.RULES.read_text() == alert_rules.text(), "python -m deploy.k8s.alert_rules"


def test_every_process_is_asked(manifests: tuple[dict[str, Any], ...]) -> None:
    (monitor,) = of_kind(manifests, "PodMonitor")
    selector = monitor["spec"]["selector"]
    (components,) = [expression["values"] for expression in selector["matchExpressions"]]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    for deployment in of_kind(manifests, "Deployment"):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert selector["matchLabels"].items() <= labels.items()
        assert labels["app.kubernetes.io/component"] in components
        ports = [port["name"] for container in containers_of(deployment) for port in container.get("ports", [])]
        assert endpoint["port"] in ports
    for job in of_kind(manifests, "Job"):
        assert job["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] not in components


def test_traces_have_a_place_and_a_way_to_it(manifests: tuple[dict[str, Any], ...]) -> None:
    (settings,) = [one["data"] for one in of_kind(manifests, "ConfigMap")]
    assert settings["OTEL_EXPORTER_OTLP_ENDPOINT"].endswith(":4318")
    assert settings["AES_GATEWAY_URL"], "the others stay"
    (policy,) = [one for one in of_kind(manifests, "NetworkPolicy") if one["metadata"]["name"] == "traces"]
    assert policy["spec"]["egress"][0]["ports"] == [{"port": 4318}]
    kubernetes_validate.validate(policy, "1.33", strict=True)

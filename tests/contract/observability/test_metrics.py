"""Metrics, alerts, dashboards, and what Kubernetes' operators are told of them."""

import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from prometheus_client import REGISTRY

from deploy.k8s import alert_rules
from tests.contract.kustomize import containers_of, of_kind, rendered
from tests.contract.observability.queries import asked_for, grouped_by
from tools.reference.metrics import ROOT, declared_metrics

OBSERVABILITY = ROOT / "deploy" / "observability"
PROMETHEUS = OBSERVABILITY / "prometheus"
DOCS = ROOT / "docs" / "operate"
# Put there by Prometheus.
TARGET_LABELS = {"job", "instance", "le"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_queries() -> list[str]:
    dashboard = json.loads((OBSERVABILITY / "grafana/dashboards/agent-execution-service.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def queries() -> list[str]:
    scaling = [path.read_text() for path in (ROOT / "deploy/k8s").rglob("*.yaml") if "rules" not in path.name]
    return [*(rule["expr"] for rule in rules()), *dashboard_queries(), *scaling]


def test_names_and_labels_follow_the_conventions() -> None:
    for metric in declared_metrics().values():
        assert re.fullmatch(r"aes(_[a-z]+)+", metric.name)
        assert not metric.labels & {"company", "company_id", "path", "session_id", "correlation_id"}, metric.name
        assert len(metric.labels) <= 4
        if metric.kind == "histogram":
            assert metric.name.endswith("_duration_seconds")


def test_every_query_asks_for_what_there_is() -> None:
    by_series = {series: metric for metric in declared_metrics().values() for series in metric.series}
    found = 0
    for query in queries():
        known: set[str] = set()
        for asked in asked_for(query):
            found += 1
            assert asked.series in by_series, f"{asked.series} in {query}"
            assert asked.labels <= by_series[asked.series].labels | TARGET_LABELS, f"{asked} in {query}"
            known |= by_series[asked.series].labels
        if known:
            assert grouped_by(query) <= known | TARGET_LABELS, query
    assert found > 60


def test_the_dashboard_shows_every_metric() -> None:
    shown = {asked.series for query in dashboard_queries() for asked in asked_for(query)}
    unseen = {metric.name for metric in declared_metrics().values() if not metric.series & shown}
    assert unseen == set()


def test_documents_name_no_other_metric() -> None:
    series = {name for metric in declared_metrics().values() for name in (*metric.series, metric.name)}
    parts = sorted({name.split("_")[1] for name in series})
    for document in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        named = set(re.findall(rf"\baes_(?:{'|'.join(parts)})_\w+", document.read_text()))
        assert named <= series, document


def test_each_alert_says_what_to_do() -> None:
    sections = re.findall(r"^## (\w+)$", (DOCS / "alerts.md").read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook_url"] == f"docs/operate/alerts.md#{rule['alert'].lower()}"
        # What counts increases within a time needs none.
        assert "for" in rule or re.search(r"(increase|changes)\(", rule["expr"]), rule["alert"]


def test_prometheus_finds_every_process_of_compose() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ours = {
        name
        for name, service in services.items()
        if "healthcheck.py" in " ".join(service.get("healthcheck", {}).get("test", []))
    }
    configuration = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    (scraped,) = configuration["scrape_configs"]
    (source,) = scraped["dns_sd_configs"]
    assert set(source["names"]) == ours
    assert source["port"] == 8000


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(
    "command",
    [
        ("check", "config", PROMETHEUS / "prometheus.yml"),
        ("test", "rules", Path(__file__).parent / "alerts_test.yml"),
    ],
    ids=["files", "rules"],
)
def test_prometheus_takes_its_files(command: tuple[str | Path, ...]) -> None:
    outcome = subprocess.run(["promtool", *map(str, command)], capture_output=True, text=True, check=False, timeout=60)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_grafana_finds_its_source_and_its_dashboard() -> None:
    provisioning = OBSERVABILITY / "grafana/provisioning"
    (source,) = yaml.safe_load(Path(provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    dashboard = json.loads((OBSERVABILITY / "grafana/dashboards/agent-execution-service.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.mark.parametrize(
    ("module", "series", "labels"),
    [
        ("services.ingestion.adapters.metrics", "aes_ingestion_failures_total", {"code": "given_up"}),
        ("services.ingestion.adapters.metrics", "aes_ingestion_failures_total", {"code": "timeout"}),
        ("services.ingestion.adapters.metrics", "aes_ingestion_artifact_documents_total", {"outcome": "indexed"}),
        ("services.runtime.adapters.observed", "aes_runtime_turns_ended_total", {"outcome": "failed"}),
        ("services.artifacts.adapters.metrics", "aes_artifacts_processed_total", {"outcome": "failed"}),
    ],
)
def test_what_alerts_wait_for_is_there_before_it_happens(module: str, series: str, labels: dict[str, str]) -> None:
    importlib.import_module(module)
    assert REGISTRY.get_sample_value(series, labels) is not None


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

"""Writes the alerts as a resource for the Prometheus operator: ``python -m deploy.k8s.alert_rules``."""

from pathlib import Path
from typing import Any, Final

import yaml

ALERTS: Final = Path(__file__).parents[1] / "observability" / "prometheus" / "alerts.yml"
RULES: Final = Path(__file__).parent / "components" / "prometheus-operator" / "rules.yaml"


def prometheus_rule() -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "agent-execution-service"},
        "spec": yaml.safe_load(ALERTS.read_text()),
    }


def text() -> str:
    head = "# Generated from deploy/observability/prometheus/alerts.yml by `python -m deploy.k8s.alert_rules`.\n"
    return head + yaml.safe_dump(prometheus_rule(), sort_keys=False, width=110)


if __name__ == "__main__":
    RULES.write_text(text())

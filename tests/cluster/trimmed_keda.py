"""KEDA's operator without the scalers that are not used here, which halves the time of its build."""

import re
from pathlib import Path

_TRIGGERS = {"cpu", "cron", "external", "external-push", "kafka", "kubernetes-workload", "memory", "postgresql"}
# Some are of others that stay.
_FILES = {"kafka", "postgresql", "cpu_memory", "cron", "kubernetes_workload", "kubernetes_resource"}
_FILES |= {"external", "metrics_api", "prometheus"}
# What scalers that stay use of one that goes.
_LEFT_OUT = 'package scalers\n\nconst externalMetricType = "External"\n'


def trim(source: Path) -> None:
    """Takes the other scalers out of the copy of KEDA's source in `source`."""
    builder = source / "pkg" / "scaling" / "scalers_builder.go"
    head, cases = builder.read_text().split("\tswitch triggerType {\n", 1)
    *known, last = re.split(r"(?m)^(?=\tcase |\tdefault:)", cases)
    kept = [case for case in known if _names(case) & _TRIGGERS]
    builder.write_text(head + "\tswitch triggerType {\n" + "".join(kept) + last)
    scalers = source / "pkg" / "scalers"
    for file in scalers.glob("*_scaler.go"):
        if file.name.removesuffix("_scaler.go") not in _FILES:
            file.unlink()
    (scalers / "left_out.go").write_text(_LEFT_OUT)
    for test in source.rglob("*_test.go"):
        test.unlink()


def _names(case: str) -> set[str]:
    return set(re.findall(r'"([a-z-]+)"', case.split(":", 1)[0]))

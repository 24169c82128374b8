"""Compares the replication of topics with the expected one."""

import os
from collections.abc import Mapping

from cli.doctor.findings import Finding, ok, warning
from libs.eventing import Replication

_MOVE = (
    "Give the topics more replicas with kafka-reassign-partitions, and kafka-configs --alter for min.insync.replicas; "
    "with Strimzi in the KafkaTopic resources."
)


def expected_replication(brokers: int, environment: Mapping[str, str] = os.environ) -> Replication | None:
    """Takes AES_KAFKA_REPLICATION_FACTOR, else three replicas where there are three brokers. Raises ValueError."""
    factor = environment.get("AES_KAFKA_REPLICATION_FACTOR")
    in_sync = environment.get("AES_KAFKA_MIN_INSYNC_REPLICAS")
    if factor:
        return Replication.of(int(factor), int(in_sync) if in_sync else None)
    return Replication.of(3) if brokers >= 3 else None


def replication_findings(
    factors: Mapping[str, int], in_sync: Mapping[str, int], expected: Replication | None
) -> list[Finding]:
    """Compares replicas (``factors``) and `min.insync.replicas` (``in_sync``) by topic with the expected ones."""
    if expected is None:
        return []
    fewer = sorted(name for name, factor in factors.items() if factor < expected.factor)
    loose = sorted(name for name, least in in_sync.items() if least < expected.in_sync)
    # One unreachable broker would stop all writes.
    tight = sorted(name for name, least in in_sync.items() if least > 1 and least >= factors[name])
    findings = []
    if fewer:
        findings.append(warning("replication", f"fewer than {expected.factor} replicas: {', '.join(fewer)}", _MOVE))
    if loose:
        told = f"min.insync.replicas below {expected.in_sync}: {', '.join(loose)}"
        findings.append(warning("replication", told, _MOVE))
    if tight:
        told = f"min.insync.replicas leaves no broker to spare: {', '.join(tight)}"
        findings.append(warning("replication", told, _MOVE))
    good = f"{expected.factor} replicas, {expected.in_sync} of them in sync before a message counts as sent"
    return findings or [ok("replication", good)]

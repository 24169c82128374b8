"""Resources for operators fit their schemas down to the last field: a cluster drops unknown fields."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.contract.kustomize import Manifest, of_kind

DIRECTORY = Path(__file__).with_name("custom_resources")
TRIGGERS = json.loads((DIRECTORY / "triggers.json").read_text())
OPERATORS = {"kafka.strimzi.io/v1", "keda.sh/v1alpha1", "monitoring.coreos.com/v1"}


def closed(schema: Any) -> Any:
    """The schema, refusing what it does not name, and with numbers that may be written as text."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string") is True:
        return {"type": ["integer", "string"]}
    found = {name: closed(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and "x-kubernetes-preserve-unknown-fields" not in schema:
        found.setdefault("additionalProperties", False)
    return found


def faults(manifest: Manifest) -> list[str]:
    schema = closed(json.loads((DIRECTORY / f"{manifest['kind']}.json").read_text()))
    # Kubernetes' own, the same for every kind.
    schema["properties"]["metadata"] = {"type": "object"}
    found = jsonschema_rs.Draft7Validator(schema).iter_errors(manifest)
    return [f"{manifest['kind']} {manifest['metadata']['name']}: {list(e.instance_path)}: {e.message}" for e in found]


def _of_operators(manifests: tuple[Manifest, ...]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["apiVersion"] in OPERATORS]


@pytest.mark.parametrize(("name", "count"), [("production", 39), ("keda", 48), ("monitored", 2)])
def test_resources_of_operators_fit_their_schemas(name: str, count: int, request: pytest.FixtureRequest) -> None:
    resources = _of_operators(request.getfixturevalue(name))

    assert len(resources) == count
    assert [fault for resource in resources for fault in faults(resource)] == []


def test_triggers_are_told_what_they_read(keda: tuple[Manifest, ...]) -> None:
    for trigger in _triggers(keda):
        expected = closed(TRIGGERS[trigger["type"]]["metadata"])
        assert jsonschema_rs.Draft7Validator(expected).is_valid(trigger["metadata"]), trigger


def test_secrets_reach_triggers_by_names_that_they_read(keda: tuple[Manifest, ...]) -> None:
    authentications = {one["metadata"]["name"]: one["spec"] for one in of_kind(keda, "TriggerAuthentication")}
    for trigger in _triggers(keda):
        if "authenticationRef" in trigger:
            given = authentications[trigger["authenticationRef"]["name"]]
            named = {one["parameter"] for one in [*given.get("env", []), *given.get("secretTargetRef", [])]}
            assert named <= {*TRIGGERS[trigger["type"]]["authentication"]}


def _triggers(keda: tuple[Manifest, ...]) -> Iterator[Manifest]:
    for scaler in of_kind(keda, "ScaledObject"):
        yield from scaler["spec"]["triggers"]

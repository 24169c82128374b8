"""The manifests set the variables that a service reads, and all that it needs."""

from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main
import yaml

from cli.app import COMMANDS
from deploy.k8s.rendering import ROOT
from libs.objects import open_store
from libs.service_defaults import ServiceSettings
from libs.service_defaults._health import Readiness, health_routes
from services.runtime.adapters.models.known_providers import COMPATIBLE, OTHERS
from tests.contract.kustomize import Manifest, containers_of, of_kind, pod, shared_settings
from tests.support.certificates import make_certificates
from tests.support.service_settings import SERVICES, settings_of, variables_of

# What clients of others' servers read in a service, by service; the runtime gets all that is known of providers.
OF_CLIENTS = {"ingestion": {"OPENAI_API_KEY", "OPENAI_BASE_URL"}}
OURS = "agent-execution-service/"
EXAMPLES: dict[str, dict[str, str]] = {
    secret["metadata"]["name"]: secret["stringData"]
    for secret in yaml.safe_load_all((ROOT / "secrets.example.yaml").read_text())
}


def service_of(container: Manifest) -> str:
    return str(container["image"].removeprefix(OURS).split(":")[0])


def containers(overlay: tuple[Manifest, ...], *kinds: str) -> list[tuple[Manifest, Manifest]]:
    """Workload and container of every process of a service."""
    found = [
        (manifest, container) for manifest in of_kind(overlay, *kinds) for container in pod(manifest)["containers"]
    ]
    return [(manifest, container) for manifest, container in found if service_of(container) in SERVICES]


def shared(overlay: tuple[Manifest, ...]) -> dict[str, str]:
    data: dict[str, str] = shared_settings(overlay)["data"]
    return data


def environment(overlay: tuple[Manifest, ...], container: Manifest) -> dict[str, str]:
    """A container's environment, with example values for the secrets."""
    installation = shared_settings(overlay)
    sources = container.get("envFrom", [])
    maps = [source["configMapRef"]["name"] for source in sources if "configMapRef" in source]
    assert maps in ([], [installation["metadata"]["name"]])
    own = {variable["name"]: _value(variable) for variable in container["env"]}
    return {**shared(overlay), **own} if maps else own


def _value(variable: dict[str, Any]) -> str:
    if "value" in variable:
        return str(variable["value"])
    reference = variable["valueFrom"]["secretKeyRef"]
    return EXAMPLES[reference["name"]][reference["key"]]


def test_every_variable_is_read_and_every_needed_one_given(
    overlay: tuple[Manifest, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = make_certificates(tmp_path).ca_file
    found = containers(overlay, "Deployment", "Job")
    assert {service_of(container) for _, container in found} == {*SERVICES}
    for manifest, container in found:
        service = service_of(container)
        given = environment(overlay, container)
        own = {variable["name"] for variable in container["env"]}
        assert own <= variables_of(service) | OF_CLIENTS.get(service, set()), manifest["metadata"]["name"]
        with monkeypatch.context() as patch:
            for name, value in given.items():
                patch.setenv(name, _mounted(manifest, value, authority) if name.endswith("_CA_FILE") else value)
            settings = settings_of(service)()
        if manifest["kind"] == "Deployment":
            assert shared(overlay).items() <= given.items()
            assert settings.accepted_signing_keys.get_secret_value() == given["AES_SIGNING_KEYS_ACCEPTED"]
            _check_process(manifest, container, settings)
        if (objects := getattr(settings, "objects_url", None)) is not None:
            open_store(objects.get_secret_value())


def _mounted(manifest: Manifest, path: str, fallback: Path) -> str:
    """Stands for a file that a volume mounts."""
    mounts = {mount["mountPath"]: mount["name"] for mount in pod(manifest)["containers"][0]["volumeMounts"]}
    directory, _, name = path.rpartition("/")
    (volume,) = [one for one in pod(manifest)["volumes"] if one["name"] == mounts[directory]]
    assert name in [item["path"] for item in volume["secret"]["items"]]
    return str(fallback)


def _check_process(manifest: Manifest, container: Manifest, settings: ServiceSettings) -> None:
    (port,) = container["ports"]
    streams = container["args"] == ["streams"]
    assert getattr(settings, "streams_port" if streams else "port") == port["containerPort"]
    assert settings.host == "0.0.0.0"
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert waits + settings.shutdown_grace_seconds < pod(manifest)["terminationGracePeriodSeconds"]


def test_what_all_are_told_is_read_by_somebody(overlay: tuple[Manifest, ...]) -> None:
    known = set().union(*map(variables_of, SERVICES))

    assert shared(overlay).keys() <= known
    assert {f"AES_{service.upper()}_URL" for service in SERVICES} <= shared(overlay).keys()


def test_addresses_are_those_of_services(overlay: tuple[Manifest, ...]) -> None:
    names = {service["metadata"]["name"]: service["spec"]["ports"][0] for service in of_kind(overlay, "Service")}
    for service in SERVICES:
        assert shared(overlay)[f"AES_{service.upper()}_URL"] == f"http://{service}:{names[service]['port']}"


def test_roles_are_known_and_all_run(overlay: tuple[Manifest, ...]) -> None:
    roles: dict[str, list[str]] = {service: [] for service in SERVICES}
    for _, container in containers(overlay, "Deployment"):
        roles[service_of(container)] += container["args"]

    both = ["api", "worker"]
    assert roles == {
        "gateway": ["api"],
        "registry": both,
        "runtime": both,
        "ingestion": ["api", "streams", "worker"],
        "artifacts": both,
        "timeline": ["api", "log", "webhooks"],
    }
    jobs = [(service_of(container), container["args"]) for _, container in containers(overlay, "Job")]
    assert sorted(jobs) == [(service, ["migrate"]) for service in sorted(SERVICES)]


def test_probes_ask_what_is_there(overlay: tuple[Manifest, ...]) -> None:
    paths = {getattr(route, "path", None) for route in health_routes("any", Readiness()).routes}
    for _, container in containers(overlay, "Deployment"):
        ports = {port["name"] for port in container["ports"]}
        for kind, path in (("startup", "live"), ("liveness", "live"), ("readiness", "ready")):
            asked = container[f"{kind}Probe"]["httpGet"]
            assert asked == {"path": f"/health/{path}", "port": "http"}
            assert asked["path"] in paths
            assert asked["port"] in ports


def test_secrets_that_are_used_are_those_of_the_example(overlay: tuple[Manifest, ...], tried_out: bool) -> None:
    known = {(name, key) for name, data in EXAMPLES.items() for key in data}
    whole = [
        (service_of(container), *container["args"], source["secretRef"])
        for _, container in containers(overlay, "Deployment")
        for source in container["envFrom"]
        if "secretRef" in source
    ]
    providers = {"name": "model-providers", "optional": True}
    assert whole == [("runtime", "api", providers), ("runtime", "worker", providers)]
    used = _used_secrets(overlay)
    optional = _used_secrets(overlay, optional=True)
    assert optional <= known
    assert optional == {("signing-key", "accepted"), *(("model-providers", name) for name in OF_CLIENTS["ingestion"])}
    if tried_out:
        # All that it uses it brings along.
        own = {(one["metadata"]["name"], key) for one in of_kind(overlay, "Secret") for key in one["data"]}
        assert used - {("gateway-tls", "tls.crt"), ("gateway-tls", "tls.key")} == own
    else:
        assert used <= known
        made = {user["metadata"]["name"] for user in of_kind(overlay, "KafkaUser")}
        own = {name for name, _ in used if name.endswith("-kafka")}
        assert own <= made if made else own == {name for name in EXAMPLES if name.endswith("-kafka")}
        without = {"model-providers", "weaviate", *(name for name in EXAMPLES if name.endswith("-kafka"))}
        assert {name for name, _ in used} - own == EXAMPLES.keys() - without


def _used_secrets(overlay: tuple[Manifest, ...], *, optional: bool = False) -> set[tuple[str, ...]]:
    """Name and key of those that have to be there, or of those that may be."""
    pods = of_kind(overlay, "Deployment", "StatefulSet", "Job", "CronJob")
    variables = [variable for one in pods for c in containers_of(one) for variable in c.get("env", [])]
    if optional:
        return {found for variable in variables if (found := _reference(variable, optional=True))}
    (ingress,) = of_kind(overlay, "Ingress")
    tls = {(entry["secretName"], key) for entry in ingress["spec"]["tls"] for key in ("tls.crt", "tls.key")}
    return {reference for variable in variables if (reference := _reference(variable))} | tls


def test_the_example_names_keys_that_providers_have() -> None:
    needed = {provider.key_variable for provider in COMPATIBLE} | {
        variable for provider in OTHERS for variable in provider.variables
    }
    addresses = {provider.address_variable for provider in COMPATIBLE}
    assert EXAMPLES["model-providers"].keys() <= needed | addresses


def _reference(variable: dict[str, Any], *, optional: bool = False) -> tuple[str, ...]:
    reference = variable.get("valueFrom", {}).get("secretKeyRef")
    wanted = reference is not None and reference.get("optional", False) is optional
    return (reference["name"], reference["key"]) if wanted else ()


def test_the_job_that_makes_topics_calls_a_command_that_is_there(overlay: tuple[Manifest, ...]) -> None:
    jobs = [job for job in of_kind(overlay, "Job") if job["metadata"]["name"] == "topics"]
    assert bool(jobs) is not bool(of_kind(overlay, "KafkaTopic")), "one of both makes the topics"
    for job in jobs:
        (container,) = pod(job)["containers"]
        command, verb, *options = container["args"]
        group = COMMANDS[command].load()
        assert isinstance(group, typer.core.TyperGroup)
        known = {name for option in group.commands[verb].params for name in option.opts}
        assert {option.split("=")[0] for option in options} <= known
        assert container["envFrom"][0]["configMapRef"]["name"] == shared_settings(overlay)["metadata"]["name"]

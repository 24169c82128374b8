"""Network policies, and the scaling of every workload."""

import importlib
import ipaddress
import sys
from typing import Any

from libs.contracts.topics import EVENT_TOPICS, TOPICS
from libs.eventing import KafkaConnection
from services.gateway.entrypoints.door.application import ProtocolApplication
from services.ingestion.entrypoints.streams import _application
from tests.contract.kustomize import Manifest, of_kind, shared_settings

TOPICS_BY_NAME = {topic.name: topic for topic in TOPICS}
# Who asks whom over HTTP; docs of the services. Payloads too large for an event are asked for at its owner, too.
CALLERS = {
    "gateway": set[str](),
    "registry": {"gateway", "runtime", "timeline"},
    "runtime": {"gateway", "registry", "artifacts", "timeline"},
    "ingestion": {"gateway", "registry", "runtime", "artifacts", "timeline"},
    "artifacts": {"gateway", "runtime", "ingestion", "timeline"},
    "timeline": {"gateway"},
}
# Servers that the dev overlay brings along, and who reaches them; nobody by name means all of the system.
SERVERS = {
    "kafka": set[str](),
    "postgres": set[str](),
    "weaviate": {"ingestion", "operator"},
    "objects": {"ingestion", "artifacts", "object-accounts", "operator"},
}
PUBLIC = ("203.0.113.7", "2606:4700::1111")
PRIVATE = ("10.96.0.1", "172.20.3.4", "192.168.1.1", "169.254.169.254", "fd00:10::1", "fe80::1")
# Deployment, its consumer group, and the topics that its members share.
SHARED = {
    "registry-worker": {"registry-commands"},
    "runtime-worker": {"runtime-commands"},
    "ingestion-worker": {"ingestion-commands"},
    "ingestion-streams": {"ingestion-work"},
    "artifacts-worker": {"artifacts-commands"},
}
GROUPS = {
    "timeline-log": {topic.name: "timeline-log" for topic in EVENT_TOPICS},
    "runtime-worker": {"runtime-commands": "runtime-commands"},
    "ingestion-worker": {"ingestion-commands": "ingestion-commands", "artifacts-events": "ingestion-artifacts"},
    "ingestion-streams": {"ingestion-work": "ingestion-worker"},
    "artifacts-worker": {
        "artifacts-commands": "artifacts-commands",
        "runtime-events": "artifacts-sessions",
        "ingestion-events": "artifacts-ingestion",
    },
}


def named(manifests: list[Manifest]) -> dict[str, Manifest]:
    return {manifest["metadata"]["name"]: manifest for manifest in manifests}


def test_services_select_the_processes_that_answer(overlay: tuple[Manifest, ...]) -> None:
    processes = of_kind(overlay, "Deployment", "StatefulSet")
    for name, service in named(of_kind(overlay, "Service")).items():
        selector = service["spec"]["selector"]
        (chosen,) = [one for one in processes if selector.items() <= _labels(one).items()]
        ports = {p["name"]: p["containerPort"] for p in chosen["spec"]["template"]["spec"]["containers"][0]["ports"]}
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"], name
        if chosen["kind"] == "Deployment":
            assert _labels(chosen)["app.kubernetes.io/component"] == "api"


def test_the_ingress_leads_to_the_gateway_and_waits_for_streams(overlay: tuple[Manifest, ...]) -> None:
    (ingress,) = of_kind(overlay, "Ingress")
    (rule,) = ingress["spec"]["rules"]
    paths = rule["http"]["paths"]
    for path in paths:
        service = named(of_kind(overlay, "Service"))[path["backend"]["service"]["name"]]
        assert path["backend"]["service"]["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}
    public = {(path["path"], path["pathType"]) for path in paths}
    # Health, metrics and internal calls are not for the world.
    protocols = protocol_prefixes()
    assert len(protocols) >= 4
    assert public == {
        *(("/api/", "Prefix"), ("/studio", "Prefix"), ("/widget.js", "Exact"), ("/", "Exact")),
        *(("/" + prefix.split("/")[1], "Prefix") for prefix in protocols),
    }
    options = ingress["metadata"]["annotations"]
    assert options["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    assert int(options["nginx.ingress.kubernetes.io/proxy-read-timeout"]) > 600


def protocol_prefixes() -> set[str]:
    """The addresses of all protocols that the gateway's wiring mounts beside the API."""
    importlib.import_module("services.gateway.bootstrap")
    modules = {application.__module__ for application in ProtocolApplication.__subclasses__()}
    return {sys.modules[name].PREFIX for name in modules if name.startswith("services.")} - {"/api/v1"}


def test_only_callers_reach_a_service_and_only_its_owners_are_called(overlay: tuple[Manifest, ...]) -> None:
    policies = named(of_kind(overlay, "NetworkPolicy"))
    everything = policies.pop("everything")["spec"]
    assert set(everything["policyTypes"]) == {"Ingress", "Egress"}
    others = {"object-accounts", "operator", "reached-by-operator", "timeline-webhooks"}
    assert policies.keys() - SERVERS.keys() - others == CALLERS.keys()
    for service in CALLERS:
        policy = policies[service]
        assert policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == service
        (rule,) = policy["spec"]["ingress"]
        assert _peers(rule["from"]) == CALLERS[service]
        owners = {owner for owner, callers in CALLERS.items() if service in callers}
        called = set().union(*(_peers(rule.get("to", [])) for rule in policy["spec"].get("egress", [])))
        assert called & CALLERS.keys() == owners
        assert called - CALLERS.keys() <= {"objects", "weaviate"}


def test_servers_of_the_dev_overlay_are_reached_by_who_needs_them(dev: tuple[Manifest, ...]) -> None:
    policies = named(of_kind(dev, "NetworkPolicy"))
    assert named(of_kind(dev, "StatefulSet")).keys() == SERVERS.keys()
    for server, callers in SERVERS.items():
        (rule,) = policies[server]["spec"]["ingress"]
        assert _peers(rule["from"]) == callers
        (process,) = [one for one in of_kind(dev, "StatefulSet") if one["metadata"]["name"] == server]
        served = {port["name"] for port in process["spec"]["template"]["spec"]["containers"][0]["ports"]}
        assert {port["port"] for port in rule["ports"]} == served
    secured = {"AES_KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "AES_INGESTION_WEAVIATE_URL": "http://weaviate:8080"}
    assert secured.items() <= shared_settings(dev)["data"].items()


def test_every_process_is_scaled_by_one_and_disrupted_one_at_a_time(
    production: tuple[Manifest, ...], keda: tuple[Manifest, ...]
) -> None:
    for overlay in (production, keda):
        deployments = named(of_kind(overlay, "Deployment"))
        scalers = of_kind(overlay, "HorizontalPodAutoscaler", "ScaledObject")
        assert sorted(one["spec"]["scaleTargetRef"]["name"] for one in scalers) == sorted(deployments)
        for name, budget in named(of_kind(overlay, "PodDisruptionBudget")).items():
            assert budget["spec"]["selector"]["matchLabels"].items() <= _labels(deployments[name]).items()
        assert named(of_kind(overlay, "PodDisruptionBudget")).keys() == deployments.keys()
        assert not any("replicas" in one["spec"] for one in deployments.values())


def test_no_more_workers_than_partitions(production: tuple[Manifest, ...], keda: tuple[Manifest, ...]) -> None:
    found = named(of_kind(production, "HorizontalPodAutoscaler"))
    for name, topics in SHARED.items():
        assert found[name]["spec"]["maxReplicas"] <= max(TOPICS_BY_NAME[topic].partitions for topic in topics)
    for name, scaler in named(of_kind(keda, "ScaledObject")).items():
        assert scaler["spec"]["maxReplicaCount"] == found[name]["spec"]["maxReplicas"]


def test_keda_looks_at_groups_and_topics_that_are_there(keda: tuple[Manifest, ...]) -> None:
    scalers = named(of_kind(keda, "ScaledObject"))
    assert scalers.keys() == GROUPS.keys()
    for name, scaler in scalers.items():
        lags = [trigger["metadata"] for trigger in scaler["spec"]["triggers"] if trigger["type"] == "kafka"]
        assert {lag["topic"]: lag["consumerGroup"] for lag in lags} == GROUPS[name]
        assert {lag["topic"] for lag in lags} <= TOPICS_BY_NAME.keys()
    streams = _application(KafkaConnection(servers="kafka:9092"), "", 1)
    assert streams.conf.id == GROUPS["ingestion-streams"]["ingestion-work"]


def test_only_streams_go_down_to_none(production: tuple[Manifest, ...], keda: tuple[Manifest, ...]) -> None:
    least = {name: one["spec"]["minReplicaCount"] for name, one in named(of_kind(keda, "ScaledObject")).items()}

    assert {name for name, count in least.items() if count == 0} == {"ingestion-streams"}
    by_cpu = named(of_kind(production, "HorizontalPodAutoscaler"))
    assert least["runtime-worker"] == by_cpu["runtime-worker"]["spec"]["minReplicas"]


def test_what_nobody_works_off_keeps_no_streams_running(keda: tuple[Manifest, ...]) -> None:
    """A replay of dead letters ends with a mark in the topic, which counts as lag until the next message."""
    triggers = named(of_kind(keda, "ScaledObject"))["ingestion-streams"]["spec"]["triggers"]

    (lag,) = [trigger["metadata"] for trigger in triggers if trigger["type"] == "kafka"]
    assert lag["excludePersistentLag"] == "true"
    assert [trigger["type"] for trigger in triggers] == ["kafka", "postgresql"], "what waits is counted besides"


def test_private_networks_are_not_reached_by_either_protocol(overlay: tuple[Manifest, ...]) -> None:
    blocks = {
        policy["metadata"]["name"]: [peer["ipBlock"] for peer in peers if "ipBlock" in peer]
        for policy in of_kind(overlay, "NetworkPolicy")
        if (peers := [peer for rule in policy["spec"].get("egress", []) for peer in rule.get("to", [])])
    }
    assert {name for name, found in blocks.items() if found} == {
        "runtime",
        "ingestion",
        "artifacts",
        "operator",
        "timeline-webhooks",
    }
    for found in filter(None, blocks.values()):
        for address in PUBLIC:
            assert any(_lets_through(block, address) for block in found), address
        for address in PRIVATE:
            assert not any(_lets_through(block, address) for block in found), address


def _lets_through(block: dict[str, Any], address: str) -> bool:
    allowed = ipaddress.ip_network(block["cidr"])
    found = ipaddress.ip_address(address)
    return found in allowed and not any(found in ipaddress.ip_network(one) for one in block["except"])


def test_queries_are_asked_with_secrets_that_are_there(keda: tuple[Manifest, ...]) -> None:
    authentications = named(of_kind(keda, "TriggerAuthentication"))
    kafka = authentications.pop("kafka")
    asked = [
        trigger["authenticationRef"]["name"]
        for scaler in of_kind(keda, "ScaledObject")
        for trigger in scaler["spec"]["triggers"]
        if trigger["type"] == "postgresql"
    ]
    assert sorted(asked) == sorted(authentications)
    for name, authentication in authentications.items():
        (target,) = authentication["spec"]["secretTargetRef"]
        assert target == {"parameter": "connection", "name": name, "key": "url"}
    _check_kafka(keda, kafka)


def _check_kafka(keda: tuple[Manifest, ...], authentication: Manifest) -> None:
    """Groups are looked at with the name and the password of the process that is scaled."""
    taken = {one["name"] for one in authentication["spec"]["env"]}
    assert taken == {"AES_KAFKA_USERNAME", "AES_KAFKA_PASSWORD"}
    deployments = named(of_kind(keda, "Deployment"))
    for scaler in of_kind(keda, "ScaledObject"):
        container = deployments[scaler["spec"]["scaleTargetRef"]["name"]]["spec"]["template"]["spec"]["containers"][0]
        assert taken <= {variable["name"] for variable in container["env"]}
        for trigger in scaler["spec"]["triggers"]:
            if trigger["type"] == "kafka":
                assert trigger["authenticationRef"] == {"name": "kafka"}
                assert (trigger["metadata"]["sasl"], trigger["metadata"]["tls"]) == ("scram_sha512", "enable")


def _labels(deployment: Manifest) -> dict[str, str]:
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    return labels


def _peers(peers: list[dict[str, Any]]) -> set[str]:
    selectors = [peer["podSelector"]["matchLabels"] for peer in peers if "podSelector" in peer]
    return {name for selector in selectors if (name := selector.get("app.kubernetes.io/name"))}

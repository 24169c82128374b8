"""From where an operator looks after an installation: the pod of the CronJob `operator`."""

import re
from typing import Any

import typer.core
import typer.main

from cli.app import COMMANDS
from cli.doctor.command import checks_of
from cli.installation import find_installation
from deploy.k8s.kafka_access import SERVICES, rules_by_user
from deploy.k8s.rendering import ROOT
from tests.contract.kustomize import Manifest, of_kind, pod, shared_settings

PAGE = ROOT.parents[1] / "docs" / "operate" / "kubernetes.md"
PORTS = {"objects": {9000}, "weaviate": {8080, 50051}, **{service: {8000} for service in SERVICES}}


def operator(overlay: tuple[Manifest, ...]) -> Manifest:
    (found,) = of_kind(overlay, "CronJob")
    assert found["metadata"]["name"] == "operator"
    return found


def given(overlay: tuple[Manifest, ...]) -> dict[str, Any]:
    """Variables of the pod, with a stand-in for what a Secret has."""
    (container,) = pod(operator(overlay))["containers"]
    installation = shared_settings(overlay)
    assert container["envFrom"] == [{"configMapRef": {"name": installation["metadata"]["name"]}}]
    own = {
        one["name"]: one.get("value") or f"of {one['valueFrom']['secretKeyRef']['name']}" for one in container["env"]
    }
    return {**installation["data"], **own}


def test_it_never_runs_by_itself(overlay: tuple[Manifest, ...]) -> None:
    assert operator(overlay)["spec"]["suspend"] is True
    (container,) = pod(operator(overlay))["containers"]
    seconds = int(re.findall(r"sleep (\d+)", container["command"][-1])[0])
    assert seconds < operator(overlay)["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]


def test_the_doctor_finds_everything_there(overlay: tuple[Manifest, ...], tmp_path: Any) -> None:
    variables = given(overlay)
    if "AES_KAFKA_CA_FILE" in variables:
        (mount,) = [one for one in pod(operator(overlay))["containers"][0]["volumeMounts"] if one["name"] != "tmp"]
        assert variables["AES_KAFKA_CA_FILE"] == f"{mount['mountPath']}/ca.crt"
        del variables["AES_KAFKA_CA_FILE"]
    installation = find_installation(variables)

    assert {*installation.databases} == {*installation.services} == {*SERVICES}
    assert {*installation.objects} == {"ingestion", "artifacts"}
    assert installation.bus is not None
    assert installation.signing_key
    assert (installation.weaviate is not None) is ("AES_INGESTION_WEAVIATE_URL" in variables)
    assert len(checks_of(installation)) > 10


def test_kafka_knows_it_by_a_user_of_its_own(overlay: tuple[Manifest, ...]) -> None:
    variables = given(overlay)
    secured = "AES_KAFKA_SECURITY_PROTOCOL" in variables
    assert variables.get("AES_KAFKA_USERNAME") == ("operator-kafka" if secured else None)
    assert variables.get("AES_KAFKA_PASSWORD") == ("of operator-kafka" if secured else None)
    assert "operator-kafka" in rules_by_user()


def test_it_reaches_everybody_and_nobody_reaches_it(overlay: tuple[Manifest, ...]) -> None:
    labels = operator(overlay)["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(overlay, "NetworkPolicy")}
    assert policies["everything"]["podSelector"]["matchLabels"].items() <= labels.items(), "Kafka, PostgreSQL, names"
    own, others = policies["operator"], policies["reached-by-operator"]
    assert own["podSelector"]["matchLabels"].items() <= labels.items()
    assert "ingress" not in own
    assert {*own["policyTypes"]} == {"Ingress", "Egress"}
    reached = {
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"]: {port["port"] for port in rule["ports"]}
        for rule in own["egress"]
        for peer in rule["to"]
        if "podSelector" in peer
    }
    assert reached == PORTS
    (expression,) = others["podSelector"]["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("app.kubernetes.io/name", "In")
    assert {*expression["values"]} == {*SERVICES}
    (rule,) = others["ingress"]
    ((peer,), (port,)) = rule["from"], rule["ports"]
    assert peer["podSelector"]["matchLabels"].items() <= labels.items()
    assert port == {"port": "http"}


def test_commands_of_the_page_are_there() -> None:
    lines = [line.strip() for line in PAGE.read_text().splitlines()]
    told = [line.split("python -m cli ")[1].split() for line in lines if "python -m cli " in line]
    assert {words[0] for words in told} >= {"keys", "companies", "doctor", "dlq"}
    for command, *words in told:
        group = COMMANDS[command].load()
        if isinstance(group, typer.core.TyperGroup):
            options = {name for option in group.commands[words[0]].params for name in option.opts}
            assert {word for word in words if word.startswith("--")} <= options


def test_jobs_of_the_release_before_are_out_of_the_way(overlay: tuple[Manifest, ...]) -> None:
    """A Job cannot be changed: what is there still has to be deleted before its new image is applied."""
    text = PAGE.read_text()
    (deleted,) = re.findall(r"kubectl -n NS delete job -l 'app.kubernetes.io/component in \((.*)\)'", text)
    components = {job["metadata"]["labels"]["app.kubernetes.io/component"] for job in of_kind(overlay, "Job")}
    assert components <= {name.strip() for name in deleted.split(",")}
    (wait,) = re.findall(r"kubectl .*\bwait .*", text)
    assert "-n NS" in wait
    assert "--timeout=" in wait
    assert text.index("delete job") < text.index(wait)

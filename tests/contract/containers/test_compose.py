"""docker-compose.yml runs what there is to run, in the right order, and keeps it in."""

import re

import pytest

from deploy.images import healthcheck
from deploy.local.home import PROJECT_ROOT
from deploy.local.services import DATABASES, SERVICES
from libs.service_defaults._health import Readiness, health_routes
from tests.contract.containers.compose import TEXT, compose, containers, example, image_of, ours, processes, stages


def test_every_process_has_a_container() -> None:
    declared = {(service.name, process.role) for service in SERVICES for process in service.processes}
    # The embedded stack has those of the timeline in one process.
    apart = {("gateway", "api"), ("timeline", "api"), ("timeline", "log"), ("timeline", "webhooks")}

    assert set(processes().values()) == declared - {("gateway", "all"), ("timeline", "all")} | apart
    # By these names services and people find them.
    assert {"kafka", "postgres", "weaviate", *(service.name for service in SERVICES)} <= containers().keys()


def test_every_database_is_made_and_migrated() -> None:
    assert containers()["databases"]["command"] == list(DATABASES)
    migrations = {name: one for name, one in ours().items() if one.get("command") == ["migrate"]}
    assert {name: image_of(one) for name, one in migrations.items()} == {f"migrate-{name}": name for name in DATABASES}
    for name, (service, _) in processes().items():
        assert f"migrate-{service}" in containers()[name]["depends_on"]
        migration, process = containers()[f"migrate-{service}"], containers()[name]
        assert (migration["environment"], migration["image"]) == (process["environment"], process["image"])


def test_nothing_starts_before_what_it_needs() -> None:
    jobs = {name for name, one in containers().items() if one["restart"] == "no"}
    for name, one in containers().items():
        for needed, how in one.get("depends_on", {}).items():
            expected = "service_completed_successfully" if needed in jobs else "service_healthy"
            assert how == {"condition": expected}, f"{name} needs {needed}"
    for name in processes():
        assert {"kafka", "postgres", "topics"} <= containers()[name]["depends_on"].keys()
    assert processes().keys() - {"gateway"} <= containers()["gateway"]["depends_on"].keys()


def test_whatever_goes_on_running_is_examined_bounded_and_given_time_to_stop() -> None:
    for name, one in containers().items():
        assert re.fullmatch(r"\d+[mg]", one["mem_limit"]) or one["restart"] == "no", name
        assert one["logging"]["options"].keys() == {"max-size", "max-file"}
        if one["restart"] != "no":
            assert one["healthcheck"]["test"][0] == "CMD", name
            assert int(one["stop_grace_period"].removesuffix("s")) >= 30
    for name, (service, _) in processes().items():
        grace = containers()[name]["environment"][f"AES_{service.upper()}_SHUTDOWN_GRACE_SECONDS"]
        assert int(grace) < int(containers()[name]["stop_grace_period"].removesuffix("s"))


def test_services_are_asked_what_they_answer() -> None:
    paths = {getattr(route, "path", None) for route in health_routes("any", Readiness()).routes}
    for name in processes():
        test = containers()[name]["healthcheck"]["test"]
        assert test[:-1] == ["CMD", "python", "-IS", "/app/healthcheck.py"]
        assert test[-1] in paths
    (exposed,) = stages()["service"].all("EXPOSE")
    assert int(exposed) == healthcheck.PORT


def test_our_containers_can_do_no_more_than_they_have_to() -> None:
    for name, one in ours().items():
        assert one["read_only"] is True, name
        assert one["tmpfs"] == ["/tmp"]
        assert not one.keys() & {"user", "privileged"}


def test_no_container_can_gain_rights() -> None:
    for name, one in containers().items():
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert "cap_add" not in one, name


def test_no_container_leaves_a_volume_without_a_name() -> None:
    declared = {
        "apache/kafka": {"/etc/kafka/secrets", "/mnt/shared/config", "/var/lib/kafka/data"},
        "pgvector/pgvector": {"/var/lib/postgresql"},
        "prom/prometheus": {"/prometheus"},
    }
    for name, one in containers().items():
        mounted = {mount.split(":")[1] for mount in one.get("volumes", [])} | set(one.get("tmpfs", []))
        assert declared.get(one["image"].partition(":")[0], set()) <= mounted, name


def test_compose_can_wait_until_everything_answers() -> None:
    """`up --wait` takes the end of a job for a failure unless something waits for that end."""
    awaited = {
        needed
        for one in containers().values()
        for needed, how in one.get("depends_on", {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    for name, one in containers().items():
        if "profiles" not in one:
            assert name in awaited if one["restart"] == "no" else one["healthcheck"]["test"], name
    for page in ("README.md", "docs/operate/containers.md"):
        assert "docker compose up --build --wait" in (PROJECT_ROOT / page).read_text()


def test_ports_are_open_to_this_machine_alone() -> None:
    published = [port for one in containers().values() for port in one.get("ports", [])]

    assert len(published) >= 3
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_there_can_be_several_of_each_service() -> None:
    assert "container_name" not in TEXT
    assert {name for name in processes() if "ports" in containers()[name]} == {"gateway"}
    gateways = compose({**example(), "AES_GATEWAY_PORTS": "8080-8081"})["services"]["gateway"]
    assert gateways["ports"] == ["127.0.0.1:8080-8081:8000"]


def test_images_are_of_a_release_and_of_no_particular_registry() -> None:
    for name, one in containers().items():
        assert re.fullmatch(r"[a-z-]+/[a-z-]+:v?\d+\.\d[\w.-]*", one["image"]), name


@pytest.mark.parametrize("mount", [mount for one in containers().values() for mount in one.get("volumes", [])])
def test_what_is_mounted_is_there(mount: str) -> None:
    source, target, *_ = mount.split(":")

    assert target.startswith("/")
    if source.startswith("./"):
        assert mount.endswith(":ro")
        assert (PROJECT_ROOT / source).exists()
    else:
        assert source in compose(example())["volumes"]

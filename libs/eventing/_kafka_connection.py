"""The address, encryption and authentication of a Kafka connection, and the corresponding settings."""

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.eventing.bus import BusUnavailable

SecurityProtocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
SaslMechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
_DIAGNOSTICS_SECONDS: Final = 5.0
_ARRIVAL_SECONDS: Final = 30.0
_ARRIVAL_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class KafkaConnection:
    """A connection to Kafka. ``KafkaSettings`` describes the options."""

    servers: str
    security_protocol: SecurityProtocol = "plaintext"
    sasl_mechanism: SaslMechanism = "SCRAM-SHA-512"
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    @staticmethod
    def of(connection: "KafkaConnection | str") -> "KafkaConnection":
        """Converts a plain address to a connection without encryption or authentication."""
        return connection if isinstance(connection, KafkaConnection) else KafkaConnection(servers=connection)

    @property
    def encrypted(self) -> bool:
        return self.security_protocol in ("ssl", "sasl_ssl")

    @property
    def authenticated(self) -> bool:
        """Returns whether the connection uses a user name and password."""
        return self.security_protocol in ("sasl_plaintext", "sasl_ssl")

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """Returns the TLS context, or None if TLS isn't used. Raises ``OSError`` if a file can't be used."""
        if not self.encrypted:
            return None
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context

    @property
    def _is_on_this_machine(self) -> bool:
        return all(
            server.strip().startswith(("127.0.0.1:", "localhost:", "[::1]:")) for server in self.servers.split(",")
        )

    def options(self) -> dict[str, Any]:
        """Returns the constructor arguments that all aiokafka clients need."""
        given: dict[str, Any] = {"bootstrap_servers": self.servers}
        if self.security_protocol != "plaintext":
            given["security_protocol"] = self.security_protocol.upper()
        if self.encrypted:
            given["ssl_context"] = self.tls
        if self.authenticated:
            given["sasl_mechanism"] = self.sasl_mechanism
            if not self.encrypted and self._is_on_this_machine:
                # aiokafka warns about unencrypted passwords even if they never leave the machine.
                logging.getLogger("aiokafka.conn").addFilter(_is_no_warning_of_passwords)
            given["sasl_plain_username"] = self.username
            given["sasl_plain_password"] = self.password
        return given

    async def refusal(self) -> str | None:
        """Returns the reason why a connection to the first broker fails, or None if it succeeds.

        aiokafka doesn't report this reason.
        """
        options = self.options()
        server = options.pop("bootstrap_servers").split(",")[0].strip()
        host, _, port = server.rpartition(":")
        try:
            async with asyncio.timeout(_DIAGNOSTICS_SECONDS):
                opened = await create_conn(host.strip("[]"), int(port), **options)
        except TimeoutError:
            return f"{server} doesn't respond"
        except (KafkaError, OSError, ValueError) as problem:
            return f"{server}: {str(problem) or type(problem).__name__}"
        opened.close()
        return None


def is_bus_outage(problem: BaseException) -> bool:
    """Returns whether a broker outage caused the error."""
    return isinstance(problem, BusUnavailable | KafkaError)


def _is_no_warning_of_passwords(record: logging.LogRecord) -> bool:
    return "in the clear" not in record.getMessage()


class BrokerArrival:
    """Delays the first connections until a broker accepts connections, for at most ``seconds``.

    Otherwise, aiokafka would log an error for each attempt before that.
    """

    def __init__(self, connection: KafkaConnection, seconds: float = _ARRIVAL_SECONDS) -> None:
        self._servers = [server.strip().rpartition(":") for server in connection.servers.split(",")]
        self._seconds = seconds
        self._one_at_a_time = asyncio.Lock()
        self._is_over = False

    async def wait(self) -> None:
        async with self._one_at_a_time:
            clock = asyncio.get_running_loop().time
            began = clock()
            while not self._is_over:
                self._is_over = await self._listens() or clock() > began + self._seconds
                if not self._is_over:
                    await asyncio.sleep(_ARRIVAL_PAUSE_SECONDS)

    async def _listens(self) -> bool:
        for host, _, port in self._servers:
            try:
                async with asyncio.timeout(_DIAGNOSTICS_SECONDS):
                    _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            except (OSError, TimeoutError, ValueError):
                continue
            writer.close()
            return True
        return False


class KafkaSettings(BaseSettings):
    """The Kafka settings of a service."""

    model_config = SettingsConfigDict(extra="ignore", populate_by_name=True, hide_input_in_errors=True)

    kafka_bootstrap_servers: str = Field(
        "127.0.0.1:9092",
        validation_alias="AES_KAFKA_BOOTSTRAP_SERVERS",
        description="Comma-separated brokers, each as `host:port`.",
    )
    kafka_security_protocol: SecurityProtocol = Field(
        "plaintext",
        validation_alias="AES_KAFKA_SECURITY_PROTOCOL",
        description="Protocol: `plaintext`, `ssl` (TLS), `sasl_plaintext` (password) or `sasl_ssl` (both).",
    )
    kafka_sasl_mechanism: SaslMechanism = Field(
        "SCRAM-SHA-512",
        validation_alias="AES_KAFKA_SASL_MECHANISM",
        description="SASL mechanism: `SCRAM-SHA-512`, `SCRAM-SHA-256` or `PLAIN`.",
    )
    kafka_username: str = Field(
        "", validation_alias="AES_KAFKA_USERNAME", description="User name. Required with `sasl_…`."
    )
    kafka_password: SecretStr = Field(
        SecretStr(""), validation_alias="AES_KAFKA_PASSWORD", description="Password. Required with `sasl_…`."
    )
    kafka_ca_file: str = Field(
        "",
        validation_alias="AES_KAFKA_CA_FILE",
        description="PEM file of the brokers' certificate authority. If empty, the system's CAs are trusted.",
    )
    kafka_certificate_file: str = Field(
        "",
        validation_alias="AES_KAFKA_CERTIFICATE_FILE",
        description="PEM file of the client certificate, if the brokers require one.",
    )
    kafka_key_file: str = Field(
        "", validation_alias="AES_KAFKA_KEY_FILE", description="PEM file of the certificate's unencrypted private key."
    )

    @field_validator("kafka_security_protocol", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        """Converts values to lower case, since Kafka's own settings use upper case."""
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits(self) -> "KafkaSettings":
        connection = self.kafka()
        _check_user(connection)
        _check_files(connection)
        return self

    def kafka(self) -> KafkaConnection:
        return KafkaConnection(
            servers=self.kafka_bootstrap_servers,
            security_protocol=self.kafka_security_protocol,
            sasl_mechanism=self.kafka_sasl_mechanism,
            username=self.kafka_username,
            password=self.kafka_password.get_secret_value(),
            ca_file=self.kafka_ca_file,
            certificate_file=self.kafka_certificate_file,
            key_file=self.kafka_key_file,
        )


def _check_user(connection: KafkaConnection) -> None:
    protocol = connection.security_protocol
    given = {"AES_KAFKA_USERNAME": connection.username, "AES_KAFKA_PASSWORD": connection.password}
    for variable, value in given.items():
        if connection.authenticated and not value:
            raise _invalid(f"{variable} is required if AES_KAFKA_SECURITY_PROTOCOL is {protocol}")
        if value and not connection.authenticated:
            # An unused password would look like protection.
            raise _invalid(
                f"{variable} is set, but AES_KAFKA_SECURITY_PROTOCOL is {protocol}; change the protocol to sasl_ssl"
            )


def _check_files(connection: KafkaConnection) -> None:
    protocol = connection.security_protocol
    files = {
        "AES_KAFKA_CA_FILE": connection.ca_file,
        "AES_KAFKA_CERTIFICATE_FILE": connection.certificate_file,
        "AES_KAFKA_KEY_FILE": connection.key_file,
    }
    given = [variable for variable, file in files.items() if file]
    if given and not connection.encrypted:
        raise _invalid(
            f"{given[0]} is set, but AES_KAFKA_SECURITY_PROTOCOL is {protocol}; change the protocol to ssl or sasl_ssl"
        )
    if bool(connection.certificate_file) is not bool(connection.key_file):
        raise _invalid("set both AES_KAFKA_CERTIFICATE_FILE and AES_KAFKA_KEY_FILE, or neither")
    try:
        _ = connection.tls
    except (OSError, ValueError) as problem:
        raise _invalid(f"{', '.join(given)}: can't be read as PEM: {problem}") from problem


def _invalid(text: str) -> PydanticCustomError:
    return PydanticCustomError("kafka", "{text}", {"text": text})

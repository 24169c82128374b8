"""Address, encryption and authentication of a Kafka connection."""

import asyncio
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError

SecurityProtocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
SaslMechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
_DIAGNOSTICS_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class KafkaConnection:
    """Connection options of producers, consumers and administrators.

    ``servers`` is host:port of brokers, separated by commas. Files are PEM; without ``ca_file`` the machine's
    authorities are trusted. The certificate, with its key, is for brokers that ask their clients for one.
    """

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
        """An address alone means no encryption and no authentication."""
        return connection if isinstance(connection, KafkaConnection) else KafkaConnection(servers=connection)

    @property
    def encrypted(self) -> bool:
        return self.security_protocol in ("ssl", "sasl_ssl")

    @property
    def authenticated(self) -> bool:
        """Whether a user name and password are sent."""
        return self.security_protocol in ("sasl_plaintext", "sasl_ssl")

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """Checks the broker's certificate and name; None without TLS. Raises OSError for unusable files."""
        if not self.encrypted:
            return None
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context

    def options(self) -> dict[str, Any]:
        """Arguments of all of aiokafka's clients."""
        given: dict[str, Any] = {"bootstrap_servers": self.servers}
        if self.security_protocol != "plaintext":
            given["security_protocol"] = self.security_protocol.upper()
        if self.encrypted:
            given["ssl_context"] = self.tls
        if self.authenticated:
            given["sasl_mechanism"] = self.sasl_mechanism
            given["sasl_plain_username"] = self.username
            given["sasl_plain_password"] = self.password
        return given


async def connection_diagnostics(connection: KafkaConnection) -> str | None:
    """Tries one connection and says why the first broker refuses it; None when it accepts.

    aiokafka's clients only report that they could not connect.
    """
    options = connection.options()
    server = options.pop("bootstrap_servers").split(",")[0].strip()
    host, _, port = server.rpartition(":")
    try:
        async with asyncio.timeout(_DIAGNOSTICS_SECONDS):
            opened = await create_conn(host.strip("[]"), int(port), **options)
    except TimeoutError:
        return f"{server} does not answer"
    except (KafkaError, OSError, ValueError) as problem:
        return f"{server}: {str(problem) or type(problem).__name__}"
    opened.close()
    return None

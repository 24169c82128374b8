"""Settings of the Kafka connection, the same for services and operators' commands."""

from typing import Any

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.eventing._kafka_connection import KafkaConnection, SaslMechanism, SecurityProtocol


class KafkaSettings(BaseSettings):
    """Rejects wrong combinations and names the variable to change."""

    model_config = SettingsConfigDict(extra="ignore", populate_by_name=True, hide_input_in_errors=True)

    kafka_bootstrap_servers: str = Field("127.0.0.1:9092", validation_alias="AES_KAFKA_BOOTSTRAP_SERVERS")
    kafka_security_protocol: SecurityProtocol = Field("plaintext", validation_alias="AES_KAFKA_SECURITY_PROTOCOL")
    kafka_sasl_mechanism: SaslMechanism = Field("SCRAM-SHA-512", validation_alias="AES_KAFKA_SASL_MECHANISM")
    kafka_username: str = Field("", validation_alias="AES_KAFKA_USERNAME")
    kafka_password: SecretStr = Field(SecretStr(""), validation_alias="AES_KAFKA_PASSWORD")
    kafka_ca_file: str = Field("", validation_alias="AES_KAFKA_CA_FILE")
    kafka_certificate_file: str = Field("", validation_alias="AES_KAFKA_CERTIFICATE_FILE")
    kafka_key_file: str = Field("", validation_alias="AES_KAFKA_KEY_FILE")

    @field_validator("kafka_security_protocol", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        """Accepts capitals, as in Kafka's own settings."""
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
            raise _invalid(f"{variable}: needed, since AES_KAFKA_SECURITY_PROTOCOL is {protocol}")
        if value and not connection.authenticated:
            # A password that is not used would look like protection.
            raise _invalid(f"{variable}: not used with AES_KAFKA_SECURITY_PROTOCOL {protocol}; set it to sasl_ssl")


def _check_files(connection: KafkaConnection) -> None:
    protocol = connection.security_protocol
    files = {
        "AES_KAFKA_CA_FILE": connection.ca_file,
        "AES_KAFKA_CERTIFICATE_FILE": connection.certificate_file,
        "AES_KAFKA_KEY_FILE": connection.key_file,
    }
    given = [variable for variable, file in files.items() if file]
    if given and not connection.encrypted:
        raise _invalid(f"{given[0]}: not used with AES_KAFKA_SECURITY_PROTOCOL {protocol}; set it to ssl or sasl_ssl")
    if bool(connection.certificate_file) is not bool(connection.key_file):
        raise _invalid("AES_KAFKA_CERTIFICATE_FILE and AES_KAFKA_KEY_FILE: one of no use without the other")
    try:
        _ = connection.tls
    except (OSError, ValueError) as problem:
        raise _invalid(f"{', '.join(given)}: cannot be read as PEM: {problem}") from problem


def _invalid(text: str) -> PydanticCustomError:
    return PydanticCustomError("kafka", "{text}", {"text": text})

"""The gateway's settings, read from the environment."""

from dataclasses import replace
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from libs.contracts.origins import canonical_origin
from libs.eventing import KafkaConnection
from libs.quotas import QuotaSettings
from libs.secrets import SecretsSettings
from libs.service_defaults import ServiceSettings


class GatewaySettings(SecretsSettings, QuotaSettings, ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_GATEWAY_")

    cors_origins: str = Field("", description="Comma-separated origins whose web pages can read all responses.")
    replica_urls: str = Field(
        "", description="Additional processes to include in health reports, as comma-separated `service=URL` pairs."
    )
    operator_kafka_username: str = Field(
        "", description="Kafka user for consumer lag and dead-lettered messages. If empty, the gateway's user is used."
    )
    operator_kafka_password: SecretStr = Field(
        SecretStr(""), description="Password of the user in `AES_GATEWAY_OPERATOR_KAFKA_USERNAME`."
    )

    @field_validator("cors_origins")
    @classmethod
    def _check(cls, text: str) -> str:
        return ",".join(canonical_origin(part.strip()) for part in text.split(",") if part.strip())

    @field_validator("replica_urls")
    @classmethod
    def _check_replicas(cls, text: str) -> str:
        for service, url in _pairs(text):
            if not service or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
                raise ValueError("use comma-separated service=URL pairs, such as runtime=http://runtime-worker:8000")
        return text

    @model_validator(mode="after")
    def _check_operator(self) -> Self:
        if bool(self.operator_kafka_username) is not bool(self.operator_kafka_password.get_secret_value()):
            raise ValueError("Set both AES_GATEWAY_OPERATOR_KAFKA_USERNAME and …_PASSWORD, or neither")
        if self.operator_kafka_username and not self.kafka().authenticated:
            raise ValueError(
                "AES_GATEWAY_OPERATOR_KAFKA_USERNAME requires SASL."
                " Set AES_KAFKA_SECURITY_PROTOCOL to sasl_ssl or sasl_plaintext"
            )
        return self

    def replica_addresses(self) -> list[tuple[str, str]]:
        """Returns a service and a base URL for each known address. A service can have several addresses."""
        known = {**self.addresses()}
        if not known["gateway"] and self.port:
            known["gateway"] = f"http://127.0.0.1:{self.port}"
        listed = [(service, url.strip()) for service, urls in known.items() for url in urls.split(",") if url.strip()]
        return list(dict.fromkeys([*listed, *_pairs(self.replica_urls)]))

    def operator_kafka(self) -> KafkaConnection:
        if not self.operator_kafka_username:
            return self.kafka()
        password = self.operator_kafka_password.get_secret_value()
        return replace(self.kafka(), username=self.operator_kafka_username, password=password)

    def shared_origins(self) -> frozenset[str]:
        return frozenset(filter(None, self.cors_origins.split(",")))


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [(service.strip(), url.strip()) for service, _, url in (part.partition("=") for part in parts)]

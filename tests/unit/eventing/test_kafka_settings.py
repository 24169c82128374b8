"""Combinations of Kafka's settings, and errors about impossible ones."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from libs.eventing import KafkaConnection, KafkaSettings
from libs.eventing.administration import Replication
from tests.support.certificates import make_certificates

SECRET = "hunter2-and-more"


def read(monkeypatch: pytest.MonkeyPatch, **given: str) -> KafkaConnection:
    for name, value in given.items():
        monkeypatch.setenv(f"AES_KAFKA_{name}", value)
    return KafkaSettings().kafka()


def test_an_address_alone_is_passed_to_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = read(monkeypatch, BOOTSTRAP_SERVERS="a:1,b:2")

    assert connection.options() == KafkaConnection.of("a:1,b:2").options() == {"bootstrap_servers": "a:1,b:2"}


def test_clients_get_their_user_and_the_trusted_authorities(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    connection = read(
        monkeypatch,
        SECURITY_PROTOCOL="SASL_SSL",
        USERNAME="runtime",
        PASSWORD=SECRET,
        CA_FILE=str(made.ca_file),
        CERTIFICATE_FILE=str(made.client_certificate),
        KEY_FILE=str(made.client_key),
    )

    options = connection.options()
    assert (options["security_protocol"], options["sasl_mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("runtime", SECRET)
    assert options["ssl_context"].check_hostname
    assert SECRET not in repr(connection)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"SECURITY_PROTOCOL": "sasl_ssl", "PASSWORD": SECRET}, "AES_KAFKA_USERNAME: required"),
        ({"SECURITY_PROTOCOL": "sasl_plaintext", "USERNAME": "u"}, "AES_KAFKA_PASSWORD: required"),
        (
            {"USERNAME": "u", "PASSWORD": SECRET},
            "AES_KAFKA_USERNAME: not used with",
        ),
        ({"SECURITY_PROTOCOL": "ssl", "PASSWORD": SECRET}, "AES_KAFKA_PASSWORD: not used"),
        ({"CA_FILE": "/ca.pem"}, "AES_KAFKA_CA_FILE: not used"),
        ({"SECURITY_PROTOCOL": "ssl", "CA_FILE": "/nowhere/ca.pem"}, "AES_KAFKA_CA_FILE: can't be read as PEM"),
        ({"SECURITY_PROTOCOL": "ssl", "KEY_FILE": "/k.pem"}, "AES_KAFKA_CERTIFICATE_FILE and AES_KAFKA_KEY_FILE"),
        ({"SECURITY_PROTOCOL": "tls"}, "AES_KAFKA_SECURITY_PROTOCOL"),
        ({"SASL_MECHANISM": "GSSAPI"}, "AES_KAFKA_SASL_MECHANISM"),
    ],
)
def test_what_does_not_go_together_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], told: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        read(monkeypatch, **given)

    (error,) = refused.value.errors()
    assert told in ": ".join([*map(str, error["loc"]), error["msg"]])
    assert SECRET not in str(refused.value)


def test_one_replica_less_than_all_has_to_be_in_sync() -> None:
    assert [Replication.of(n).in_sync for n in (1, 2, 3, 5)] == [1, 1, 2, 4]
    assert Replication.of(3, 1) == Replication(3, 1)
    with pytest.raises(ValueError, match="exceed the 2 replicas"):
        Replication.of(2, 3)

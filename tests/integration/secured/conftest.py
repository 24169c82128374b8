"""A Kafka with TLS, passwords and the rules of `deploy/k8s`."""

import asyncio
from collections.abc import Iterator

import pytest

from libs.eventing.administration import create_topics
from tests.support.secured_kafka import SecuredKafka, secured_kafka


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        asyncio.run(create_topics(kafka.inside))
        yield kafka

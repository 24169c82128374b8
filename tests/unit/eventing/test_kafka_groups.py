"""Groups of a cluster that has just begun."""

import pytest

from libs.eventing import _kafka_groups
from libs.eventing._kafka_connection import KafkaConnection
from libs.eventing._kafka_groups import KafkaGroups
from libs.eventing.bus import BusUnavailable


class ClientOfAnEmptyCluster:
    def __init__(self, **_: object) -> None:
        self.closed = False

    async def bootstrap(self) -> None: ...

    def get_random_node(self) -> None: ...

    async def close(self) -> None:
        self.closed = True


async def test_a_cluster_without_a_broker_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_groups, "AIOKafkaClient", ClientOfAnEmptyCluster)
    groups = KafkaGroups(KafkaConnection(servers="127.0.0.1:1"), prefix="", client_id="test")
    with pytest.raises(BusUnavailable, match="no broker yet"):
        await groups.expel(["readers"], lambda processes: processes)

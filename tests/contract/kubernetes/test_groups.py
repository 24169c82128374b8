"""KEDA watches every group that the workers it scales are members of."""

from pathlib import Path

from pydantic import SecretStr

from libs.service_defaults import Service
from services.artifacts.bootstrap import build as build_artifacts
from services.artifacts.settings import ArtifactsSettings
from services.ingestion.bootstrap import build as build_ingestion
from services.ingestion.settings import IngestionSettings
from tests.support.kustomize import Manifest, of_kind


async def _services(directory: Path) -> list[Service]:
    """As they are built for any role; nothing of them is started."""
    given = {
        "signing_key": SecretStr("k" * 40),
        "database_url": SecretStr("postgresql://nobody@127.0.0.1/nothing"),
        "objects_url": SecretStr(f"file:{directory}"),
    }
    return [build_artifacts(ArtifactsSettings(**given)), build_ingestion(IngestionSettings(**given))]


async def test_every_group_is_watched(keda: tuple[Manifest, ...], tmp_path: Path) -> None:
    watched = {scaler["metadata"]["name"]: _lags(scaler) for scaler in of_kind(keda, "ScaledObject")}
    for service in await _services(tmp_path):
        consumed = {(f"{service.name}-commands", topic) for topic in service.commands.topics}
        consumed |= {
            (f"{service.name}-{purpose}", topic)
            for purpose, router in service.consumers.routers.items()
            for topic in router.topics
        }
        assert len(consumed) > 1
        assert watched[f"{service.name}-worker"] == consumed


def _lags(scaler: Manifest) -> set[tuple[str, str]]:
    triggers = [trigger["metadata"] for trigger in scaler["spec"]["triggers"] if trigger["type"] == "kafka"]
    return {(trigger["consumerGroup"], trigger["topic"]) for trigger in triggers}

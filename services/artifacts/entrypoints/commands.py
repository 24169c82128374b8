"""Commands about artifacts, which end when ingestion has answered."""

from libs.contracts.resources.artifacts import CopyArtifactToPlatform, RemoveArtifactFromPlatform
from libs.eventing import CommandRouter
from services.artifacts.use_cases.copy_to_platform import copy_to_platform, remove_from_platform


def register_commands(router: CommandRouter) -> None:
    router.handle(CopyArtifactToPlatform, copy_to_platform, ends_later=True)
    router.handle(RemoveArtifactFromPlatform, remove_from_platform, ends_later=True)

"""Commands about artifacts; they end when ingestion has answered."""

from libs.contracts.commands.artifacts import CopyArtifactToPlatform, RemoveArtifactFromPlatform
from libs.eventing import CommandRouter
from services.artifacts.use_cases.copy_to_platform import CopyToPlatform, RemoveFromPlatform


def register_commands(router: CommandRouter, copy: CopyToPlatform, remove: RemoveFromPlatform) -> None:
    router.handle(CopyArtifactToPlatform, copy, ends_later=True)
    router.handle(RemoveArtifactFromPlatform, remove, ends_later=True)

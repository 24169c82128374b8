"""Commands about artifacts: they end when the service that keeps files has answered."""

from libs.contracts.commands.artifacts import CopyArtifactToPlatform, RemoveArtifactFromPlatform
from libs.eventing import CommandRouter
from services.artifacts.use_cases.copy_to_platform import PlatformCopying


def register_commands(router: CommandRouter, copying: PlatformCopying) -> None:
    router.handle(CopyArtifactToPlatform, copying.copy, ends_later=True)
    router.handle(RemoveArtifactFromPlatform, copying.remove, ends_later=True)

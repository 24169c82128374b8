"""Commands on ``registry-commands``: each ends in the event that its use case emits, or in a rejection."""

from dataclasses import dataclass
from typing import Final

from libs.contracts.commands.registry import (
    CreateAgent,
    CreateToolset,
    DeleteAgent,
    DeleteSecret,
    DeleteToolset,
    PutSecret,
    RefreshToolset,
    UpdateAgent,
    UpdateToolset,
)
from libs.eventing import CommandRouter
from services.registry.use_cases.change_agents import (
    AddAgent,
    ChangeAgent,
    CheckAgentChange,
    CheckNewAgent,
    RemoveAgent,
)
from services.registry.use_cases.change_secrets import RemoveSecret, StoreSecret
from services.registry.use_cases.change_toolsets import (
    AddToolset,
    ChangeToolset,
    CheckNewToolset,
    CheckToolsetChange,
    CheckToolsetRefresh,
    RemoveToolset,
)

# The target of a toolset is asked for its tools; the gateway waits longer for these commands.
_DISCOVERY_SECONDS: Final = 20.0


def register_commands(
    router: CommandRouter,
    check_new: CheckNewAgent,
    add: AddAgent,
    check_change: CheckAgentChange,
    change: ChangeAgent,
    remove: RemoveAgent,
) -> None:
    router.handle_prepared(CreateAgent, check_new, add)
    router.handle_prepared(UpdateAgent, check_change, change)
    router.handle(DeleteAgent, remove)


@dataclass(frozen=True, slots=True)
class ToolsetCommands:
    """The use cases behind commands about toolsets and secrets."""

    check_new: CheckNewToolset
    add: AddToolset
    check_change: CheckToolsetChange
    check_refresh: CheckToolsetRefresh
    change: ChangeToolset
    remove: RemoveToolset
    store_secret: StoreSecret
    remove_secret: RemoveSecret

    def register(self, router: CommandRouter) -> None:
        router.handle_prepared(CreateToolset, self.check_new, self.add, seconds=_DISCOVERY_SECONDS)
        router.handle_prepared(UpdateToolset, self.check_change, self.change, seconds=_DISCOVERY_SECONDS)
        router.handle_prepared(RefreshToolset, self.check_refresh, self.change, seconds=_DISCOVERY_SECONDS)
        router.handle(DeleteToolset, self.remove)
        router.handle(PutSecret, self.store_secret)
        router.handle(DeleteSecret, self.remove_secret)

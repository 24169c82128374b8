"""Commands on ``registry-commands``: each ends in the event that its use case emits, or in a rejection."""

from libs.contracts.commands.registry import CreateAgent, DeleteAgent, UpdateAgent
from libs.eventing import CommandRouter
from services.registry.use_cases.change_agents import (
    AddAgent,
    ChangeAgent,
    CheckAgentChange,
    CheckNewAgent,
    RemoveAgent,
)


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

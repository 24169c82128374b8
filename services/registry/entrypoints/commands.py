"""Commands on ``registry-commands``: each ends in the event that its use case emits, or in a rejection."""

from typing import Final

from libs.contracts.resources.agents import CreateAgent, DeleteAgent, UpdateAgent
from libs.contracts.resources.secrets import DeleteSecret, PutSecret
from libs.contracts.resources.toolsets import CreateToolset, DeleteToolset, RefreshToolset, UpdateToolset
from libs.eventing import CommandRouter
from services.registry.use_cases.change_agents import ChangeAgents
from services.registry.use_cases.change_secrets import delete_secret, put_secret
from services.registry.use_cases.change_toolsets import ChangeToolsets

# The target of a toolset is asked for its tools; the gateway waits longer for these commands.
_DISCOVERY_SECONDS: Final = 20.0


def register_commands(router: CommandRouter, agents: ChangeAgents, toolsets: ChangeToolsets) -> None:
    router.handle_prepared(CreateAgent, agents.check_new, agents.add)
    router.handle_prepared(UpdateAgent, agents.check_change, agents.change)
    router.handle(DeleteAgent, agents.remove)
    router.handle_prepared(CreateToolset, toolsets.check_new, toolsets.add, seconds=_DISCOVERY_SECONDS)
    router.handle_prepared(UpdateToolset, toolsets.check_change, toolsets.change, seconds=_DISCOVERY_SECONDS)
    router.handle_prepared(RefreshToolset, toolsets.check_refresh, toolsets.change, seconds=_DISCOVERY_SECONDS)
    router.handle(DeleteToolset, toolsets.remove)
    router.handle(PutSecret, put_secret)
    router.handle(DeleteSecret, delete_secret)

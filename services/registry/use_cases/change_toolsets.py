"""Creates, changes, refreshes and deletes toolsets. Targets are asked for their tools before the transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from libs.contracts.api.toolsets import (
    MAX_TOOLS,
    ConnectedTool,
    ConnectedToolset,
    HttpToolsetBody,
    McpToolsetBody,
    OpenApiToolsetBody,
    ToolsetBody,
    UpdateToolsetBody,
)
from libs.contracts.commands.registry import CreateToolset, DeleteToolset, RefreshToolset, UpdateToolset
from libs.contracts.errors import Conflict, ErrorDetail, RateLimited
from libs.contracts.events.registry import ToolsetCreated, ToolsetDeleted, ToolsetRefreshed, ToolsetUpdated
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from libs.fairness import FairSemaphore, QueueFull
from services.registry.domain.hints import near
from services.registry.domain.toolset import MOST_TOOLSETS, StoredToolset, config_of, new_toolset, require, secret_names
from services.registry.domain.toolset_checks import left_out_warnings, toolset_errors
from services.registry.domain.toolset_ports import SecretReader, ToolsetReader, ToolsetRuntime, ToolsetWriter
from services.registry.use_cases.configuration_checks import InvalidConfiguration, parse_or_reject

Writers = Callable[[Transaction], ToolsetWriter]
Now = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class FoundTools:
    """A checked body with the tools that its target offers, and what is said about those that were left out.

    ``based_on``: the version that was looked at.
    """

    body: ToolsetBody
    tools: Sequence[ConnectedTool]
    warnings: Sequence[ErrorDetail] = ()
    based_on: int = 0


@dataclass(frozen=True, slots=True)
class FindTools:
    """``permits``: targets that are asked at the same time, shared fairly among companies."""

    secrets: SecretReader
    runtime: ToolsetRuntime
    permits: FairSemaphore

    async def __call__(
        self, document: Mapping[str, Any], caller: Identity, *, version: int, check_settings: bool
    ) -> FoundTools:
        """Checks a toolset's document and asks its target for the tools.

        ``check_settings``: settings of tools that the target does not have are an error. Raises
        ``InvalidConfiguration``, what the target is refused for, ``RateLimited``, or an outage of the runtime.
        """
        body = parse_or_reject(_model_of(document), document)
        errors = toolset_errors(body, await self.secrets.names(caller.company_id))
        if errors:
            raise InvalidConfiguration(errors)
        config = config_of(body)
        secrets = await self.secrets.ciphertexts(caller.company_id, secret_names(config))
        connected = ConnectedToolset(
            name=body.name, version=version, type=body.type, config=config, secrets=dict(secrets)
        )
        try:
            async with self.permits.acquire(caller.company_id):
                found = await self.runtime.discover(connected, caller)
        except QueueFull as full:
            message = f"{full.waiting} targets of your company are waiting to be asked for their tools"
            raise RateLimited(message, retry_after=5) from None
        errors = list(_tool_errors(found.tools))
        if check_settings:
            errors += _settings_errors(body, {tool.name for tool in found.tools})
        if errors:
            raise InvalidConfiguration(errors)
        return FoundTools(body, found.tools, left_out_warnings(body, found.left_out))


@dataclass(frozen=True, slots=True)
class CheckNewToolset:
    reader: ToolsetReader
    find_tools: FindTools

    async def __call__(self, command: CreateToolset, context: CommandContext) -> FoundTools:
        """Raises ``Conflict`` for a name that is taken, and as ``FindTools`` does."""
        name = command.toolset.get("name")
        if isinstance(name, str) and await self.reader.get(context.identity.company_id, name) is not None:
            raise Conflict(f"There is a toolset named {name!r} already")
        return await self.find_tools(command.toolset, context.identity, version=1, check_settings=True)


@dataclass(frozen=True, slots=True)
class AddToolset:
    writers: Writers
    now: Now

    async def __call__(
        self, transaction: Transaction, _: CreateToolset, context: CommandContext, found: FoundTools
    ) -> None:
        """The toolset's id is the command's. Raises ``Conflict``."""
        toolset = new_toolset(
            toolset_id=context.command_id,
            company_id=context.identity.company_id,
            body=found.body,
            tools=found.tools,
            warnings=found.warnings,
            now=self.now(),
        )
        await self.writers(transaction).add(toolset, context.identity.user_id, most=MOST_TOOLSETS)
        transaction.emit(ToolsetCreated(toolset=toolset.public()), subject=toolset.id)


@dataclass(frozen=True, slots=True)
class CheckToolsetChange:
    reader: ToolsetReader
    find_tools: FindTools

    async def __call__(self, command: UpdateToolset, context: CommandContext) -> FoundTools:
        toolset = require(await self.reader.get(context.identity.company_id, command.name))
        changes = parse_or_reject(UpdateToolsetBody, command.changes)
        found = await self.find_tools(
            toolset.merged(changes),
            context.identity,
            version=toolset.version + 1,
            check_settings="tool_settings" in changes.model_fields_set,
        )
        return replace(found, based_on=toolset.version)


@dataclass(frozen=True, slots=True)
class CheckToolsetRefresh:
    reader: ToolsetReader
    find_tools: FindTools

    async def __call__(self, command: RefreshToolset, context: CommandContext) -> FoundTools:
        toolset = require(await self.reader.get(context.identity.company_id, command.name))
        found = await self.find_tools(toolset.body, context.identity, version=toolset.version + 1, check_settings=False)
        return replace(found, based_on=toolset.version)


@dataclass(frozen=True, slots=True)
class ChangeToolset:
    """Stores what was found: a new version, unless nothing differs."""

    writers: Writers
    now: Now

    async def __call__(
        self,
        transaction: Transaction,
        command: UpdateToolset | RefreshToolset,
        context: CommandContext,
        found: FoundTools,
    ) -> None:
        """Raises ``ToolsetNotFound``, or ``Conflict`` when somebody else changed it after it was looked at."""
        toolsets = self.writers(transaction)
        toolset = require(await toolsets.lock(context.identity.company_id, command.name))
        if toolset.version != found.based_on:
            raise Conflict("The toolset was changed meanwhile; try again")
        after = toolset.changed(found.body, found.tools, self.now(), found.warnings)
        await toolsets.save(toolset, after, context.identity.user_id)
        event = ToolsetUpdated if isinstance(command, UpdateToolset) else ToolsetRefreshed
        transaction.emit(event(toolset=after.public()), subject=after.id)


@dataclass(frozen=True, slots=True)
class RemoveToolset:
    writers: Writers
    now: Now

    async def __call__(self, transaction: Transaction, command: DeleteToolset, context: CommandContext) -> None:
        """Agents that name it go on without its tools. Raises ``ToolsetNotFound``."""
        toolsets = self.writers(transaction)
        toolset: StoredToolset = require(await toolsets.lock(context.identity.company_id, command.name))
        await toolsets.delete(toolset, self.now())
        transaction.emit(ToolsetDeleted(name=toolset.name), subject=toolset.id)


def _model_of(document: Mapping[str, Any]) -> type[ToolsetBody]:
    """The model of the document's type, by which findings name places in the document itself."""
    known: dict[str, type[ToolsetBody]] = {
        "mcp": McpToolsetBody,
        "openapi": OpenApiToolsetBody,
        "http": HttpToolsetBody,
    }
    given = document.get("type")
    if given not in known:
        hint = f"one of {', '.join(known)}"
        message = "Input should be the type of a toolset"
        raise InvalidConfiguration([ErrorDetail(loc=["type"], type="type_unknown", message=message, hint=hint)])
    return known[given]


def _tool_errors(tools: Sequence[ConnectedTool]) -> list[ErrorDetail]:
    if not tools:
        return [_target_error("The target offers no tools", "see to allowed_tools or operations, if they are given")]
    if len(tools) > MAX_TOOLS:
        message = f"The target offers {len(tools)} tools, more than {MAX_TOOLS}"
        return [_target_error(message, "choose some with allowed_tools or operations")]
    seen: set[str] = set()
    for tool in tools:
        if not 1 <= len(tool.name) <= 150 or not tool.name.isprintable() or " " in tool.name:
            return [_target_error(f"The target offers a tool with an unusable name: {tool.name[:200]!r}", None)]
        if tool.name in seen:
            return [_target_error(f"The target offers two tools named {tool.name!r}", None)]
        seen.add(tool.name)
    return []


def _target_error(message: str, hint: str | None) -> ErrorDetail:
    return ErrorDetail(loc=["tools"], type="tools_unusable", message=message, hint=hint)


def _settings_errors(body: ToolsetBody, names: Collection[str]) -> list[ErrorDetail]:
    return [
        ErrorDetail(
            loc=["tool_settings", name],
            type="tool_unknown",
            message=f"The toolset has no tool {name!r}",
            hint=near(name, names),
        )
        for name in body.tool_settings
        if name not in names
    ]

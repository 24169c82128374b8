"""Creates, updates, refreshes and deletes toolsets. The target's tools are read before the transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from libs.contracts.errors import Conflict, ErrorDetail, RateLimited
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext
from libs.contracts.resources.toolsets import (
    ConnectedTool,
    ConnectedToolset,
    CreateToolset,
    DeleteToolset,
    RefreshToolset,
    ToolsetBody,
    ToolsetCreated,
    ToolsetDeleted,
    ToolsetRefreshed,
    ToolsetUpdated,
    UpdateToolset,
)
from libs.eventing import Transaction
from libs.fairness import FairSemaphore, QueueFull
from services.registry.adapters.internal_api.runtime import HttpToolsetRuntime
from services.registry.adapters.postgres.secrets import PostgresSecretReader
from services.registry.adapters.postgres.toolsets import PostgresToolsetReader, PostgresToolsetWriter
from services.registry.domain.findings import reject
from services.registry.domain.toolset import BODY_TYPES, config_of, new_toolset, require, secret_names
from services.registry.domain.toolset_checks import left_out_warnings, offer_errors, settings_errors, toolset_errors
from services.registry.use_cases.configurations import parse_or_reject


@dataclass(frozen=True, slots=True)
class FoundTools:
    """A checked toolset with its target's tools. ``based_on`` is the toolset's version when it was read."""

    body: ToolsetBody
    tools: Sequence[ConnectedTool]
    warnings: Sequence[ErrorDetail]
    based_on: int


@dataclass(frozen=True, slots=True)
class Toolsets:
    """Changes toolsets. ``permits`` limits concurrent calls to targets and shares them fairly among companies."""

    reader: PostgresToolsetReader
    secrets: PostgresSecretReader
    runtime: HttpToolsetRuntime
    permits: FairSemaphore

    async def check_new(self, command: CreateToolset, context: CommandContext) -> FoundTools:
        """Checks a new toolset. Raises ``Conflict`` if its name is taken, and the same errors as ``_find``."""
        body = command.toolset.root
        if await self.reader.get(context.identity.company_id, body.name) is not None:
            raise Conflict(f"A toolset named {body.name!r} already exists.")
        return await self._find(body, context.identity, based_on=0, check_settings=True)

    async def create(
        self, transaction: Transaction, _: CreateToolset, context: CommandContext, found: FoundTools
    ) -> None:
        """Stores a new toolset. Raises ``Conflict``."""
        toolset = new_toolset(
            toolset_id=context.command_id,
            company_id=context.identity.company_id,
            body=found.body,
            tools=found.tools,
            warnings=found.warnings,
            now=datetime.now(UTC),
        )
        await PostgresToolsetWriter(transaction).add(toolset, context.identity.user_id)
        transaction.emit(ToolsetCreated(toolset=toolset.public()), subject=toolset.id)

    async def check_change(self, command: UpdateToolset, context: CommandContext) -> FoundTools:
        toolset = require(await self.reader.get(context.identity.company_id, command.name))
        body = parse_or_reject(BODY_TYPES[toolset.type], toolset.merged(command.changes))
        asked = "tool_settings" in command.changes.model_fields_set
        return await self._find(body, context.identity, based_on=toolset.version, check_settings=asked)

    async def check_refresh(self, command: RefreshToolset, context: CommandContext) -> FoundTools:
        toolset = require(await self.reader.get(context.identity.company_id, command.name))
        return await self._find(toolset.body, context.identity, based_on=toolset.version, check_settings=False)

    async def update(
        self,
        transaction: Transaction,
        command: UpdateToolset | RefreshToolset,
        context: CommandContext,
        found: FoundTools,
    ) -> None:
        """Stores an update or a refresh.

        Raises ``ToolsetNotFound``, or ``Conflict`` if the toolset was changed after it was read.
        """
        toolsets = PostgresToolsetWriter(transaction)
        toolset = require(await toolsets.lock(context.identity.company_id, command.name))
        if toolset.version != found.based_on:
            raise Conflict("The toolset was changed by another request. Try again.")
        after = toolset.changed(found.body, found.tools, datetime.now(UTC), found.warnings)
        await toolsets.save(toolset, after, context.identity.user_id)
        event = ToolsetUpdated if isinstance(command, UpdateToolset) else ToolsetRefreshed
        transaction.emit(event(toolset=after.public()), subject=after.id)

    async def delete(self, transaction: Transaction, command: DeleteToolset, context: CommandContext) -> None:
        """Deletes a toolset. Agents that use the toolset continue without its tools. Raises ``ToolsetNotFound``."""
        toolsets = PostgresToolsetWriter(transaction)
        toolset = require(await toolsets.lock(context.identity.company_id, command.name))
        await toolsets.delete(toolset, datetime.now(UTC))
        transaction.emit(ToolsetDeleted(name=toolset.name), subject=toolset.id)

    async def _find(self, body: ToolsetBody, caller: Identity, *, based_on: int, check_settings: bool) -> FoundTools:
        """Checks a toolset and reads its target's tools.

        With ``check_settings``, settings for a missing tool are an error. Raises ``InvalidConfiguration``,
        ``RateLimited``, and the same errors as ``HttpToolsetRuntime.discover``.
        """
        reject(toolset_errors(body, await self.secrets.names(caller.company_id)))
        config = config_of(body)
        secrets = await self.secrets.ciphertexts(caller.company_id, secret_names(config))
        connected = ConnectedToolset(
            name=body.name, version=based_on + 1, type=body.type, config=config, secrets=dict(secrets)
        )
        try:
            async with self.permits.acquire(caller.company_id):
                offered = await self.runtime.discover(connected, caller)
        except QueueFull as full:
            message = f"Your company already has {full.waiting} toolset changes waiting. Try again later."
            raise RateLimited(message, retry_after=5) from None
        unknown = settings_errors(body, {tool.name for tool in offered.tools}) if check_settings else []
        reject([*offer_errors(offered.tools), *unknown])
        return FoundTools(body, offered.tools, left_out_warnings(body, offered.left_out), based_on)

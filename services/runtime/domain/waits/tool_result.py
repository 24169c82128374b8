"""A wait for the caller to run a client tool and return its result."""

from libs.contracts.identity import Scope
from libs.contracts.resources.actions import ResolveAction
from libs.json_text import write_json
from services.runtime.domain.conversation import ToolResult
from services.runtime.domain.tools import ToolDefinition, cut_result
from services.runtime.domain.waits import Answer, LockedWait, WaitKind, wrong_kind


class ToolResultWait(WaitKind):
    name = "tool_result"
    scope = Scope.RUNTIME_EXECUTE

    def holds_up(self, definition: ToolDefinition) -> bool:
        return definition.run_by_client

    def answer(self, command: ResolveAction) -> Answer:
        if command.decision is not None:
            raise wrong_kind("decision", "This action is waiting for a tool's result. Send an output or an error.")
        if command.error is not None:
            return Answer(self.name, content=command.error, is_error=True)
        output = command.output
        return Answer(self.name, content=output if isinstance(output, str) else write_json(output).decode())

    def result(self, wait: LockedWait, answer: Answer) -> ToolResult | None:
        if answer.decision == "expired":
            return wait.failed("The client didn't send a result in time.")
        if answer.is_error:
            return wait.failed(cut_result(answer.content or "The tool failed."))
        return ToolResult(wait.call_id, wait.tool, cut_result(answer.content or ""))

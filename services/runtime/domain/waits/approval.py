"""A wait for a person to approve or deny a tool call."""

from libs.contracts.identity import Scope
from libs.contracts.resources.actions import ResolveAction
from services.runtime.domain.conversation import ToolResult
from services.runtime.domain.tools import ToolDefinition
from services.runtime.domain.waits import Answer, LockedWait, WaitKind, wrong_kind


class ApprovalWait(WaitKind):
    name = "approval"
    scope = Scope.RUNTIME_APPROVE
    readers_may_answer = True

    def holds_up(self, definition: ToolDefinition) -> bool:
        return definition.approval == "always" and not definition.run_by_client

    def answer(self, command: ResolveAction) -> Answer:
        if command.decision is None:
            raise wrong_kind("decision", "This action is an approval. Send a decision: approve or deny.")
        return Answer(self.name, command.decision, command.reason if command.decision == "deny" else None)

    def result(self, wait: LockedWait, answer: Answer) -> ToolResult | None:
        if answer.decision == "approve":
            return None
        if answer.decision == "expired":
            return wait.failed("The call wasn't made: nobody approved or denied it in time.")
        reason = f" Reason: {answer.content}" if answer.content else ""
        return wait.failed(f"The call wasn't made: a person denied it.{reason}")

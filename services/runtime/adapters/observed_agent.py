"""Measures and traces the runs of agents."""

from __future__ import annotations

from time import perf_counter

from libs import tracing
from libs.contracts.errors import ServiceError
from services.runtime.adapters import metrics
from services.runtime.domain.agents import AgentLoop, AgentReply, AgentTask, TurnJournal, TurnLost


class ObservedAgent:
    """An AgentLoop around another one."""

    def __init__(self, agent: AgentLoop) -> None:
        self._agent = agent

    async def run(self, task: AgentTask, journal: TurnJournal) -> AgentReply:
        with tracing.span(
            "invoke_agent",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.conversation.id": task.session_id,
                "aes.agent_type": task.agent.agent_type,
                "aes.turn_id": task.turn_id,
                "aes.company_id": task.caller.company_id,
                "aes.steps_resumed": len(journal.steps),
            },
        ):
            return await self._measured(task, journal)

    async def _measured(self, task: AgentTask, journal: TurnJournal) -> AgentReply:
        began = perf_counter()
        # Also at the turn's deadline, and when the worker stops.
        outcome = "cancelled"
        try:
            reply = await self._agent.run(task, journal)
            outcome = "completed"
            return reply
        except TurnLost:
            outcome = "lost"
            raise
        except ServiceError as problem:
            outcome = problem.kind.value
            raise
        except Exception:
            outcome = "crashed"
            raise
        finally:
            metrics.AGENT_RUNS.labels(task.agent.agent_type, outcome).inc()
            metrics.AGENT_SECONDS.labels(task.agent.agent_type).observe(perf_counter() - began)

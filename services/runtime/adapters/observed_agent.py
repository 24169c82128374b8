"""Measures the runs of agents."""

from __future__ import annotations

from time import perf_counter

from libs.contracts.errors import ServiceError
from services.runtime.adapters import metrics
from services.runtime.domain.agent_ports import AgentLoop, AgentReply, AgentTask, TurnJournal, TurnLost


class ObservedAgent:
    """An AgentLoop around another one."""

    def __init__(self, agent: AgentLoop) -> None:
        self._agent = agent

    async def run(self, task: AgentTask, journal: TurnJournal) -> AgentReply:
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

"""The pydantic-ai agents, made once for each model and tool."""

import ast
import operator
import os
from collections.abc import Awaitable, Callable
from functools import lru_cache

import httpx
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculator(expression: str) -> str:
    """Compute an arithmetic expression.

    Args:
        expression: for example (2 + 3) * 4
    """
    return str(_evaluate(ast.parse(expression, mode="eval").body))


def _evaluate(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_evaluate(left), _evaluate(right))
    raise ValueError("only numbers, + - * / and brackets")


async def bench_lookup(order: int) -> str:
    """Look up an order.

    Args:
        order: its number
    """
    answer = await _client().get(os.environ["REFERENCE_LOOKUP_URL"], params={"order": order})
    return answer.raise_for_status().text


@lru_cache(maxsize=1)
def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=30)


_TOOLS: dict[str, Callable[..., str] | Callable[..., Awaitable[str]]] = {
    "calculator": calculator,
    "bench.lookup": bench_lookup,
}


@lru_cache(maxsize=64)
def agent(tool: str, model: str) -> Agent[object, str]:
    """OPENAI_BASE_URL and OPENAI_API_KEY say where the model is. An empty tool is none."""
    return Agent(OpenAIChatModel(model), tools=[_TOOLS[tool]] if tool else [])


def tool_calls(messages: list[ModelMessage]) -> list[dict[str, str]]:
    return [
        {"id": part.tool_call_id, "name": part.tool_name, "arguments": part.args_as_json_str()}
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]

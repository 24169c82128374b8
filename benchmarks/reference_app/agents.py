"""The pydantic-ai agents, made once for each model and kind of agent."""

import ast
import operator
from collections.abc import Callable
from functools import lru_cache

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


@lru_cache(maxsize=64)
def agent(agent_type: str, model: str) -> Agent[object, str]:
    """OPENAI_BASE_URL and OPENAI_API_KEY say where the model is."""
    tools = [calculator] if agent_type == "react_agent" else []
    return Agent(OpenAIChatModel(model), tools=tools)


def tool_calls(messages: list[ModelMessage]) -> list[dict[str, str]]:
    return [
        {"id": part.tool_call_id, "name": part.tool_name, "arguments": part.args_as_json_str()}
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]

"""The ticket office as an MCP server, built with the official SDK.

    .aes/venv/bin/python examples/toolsets/ticket_office_mcp.py      # http://127.0.0.1:8202/mcp

Annotations tell clients which calls are safe to repeat. A tool with `readOnlyHint` or `idempotentHint` is retried after
a failure, and any other tool is called at most once. `book_seats` creates one booking per Idempotency-Key, so
`idempotentHint` is correct. mcp-toolset.yaml creates a toolset for the server.
"""

import sys
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field
from ticket_office import TicketOffice

office = TicketOffice()
server = MCPServer("Ticket office")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_crossings() -> dict[str, int]:
    """Lists today's ferry crossings with their free seats."""
    return office.free


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def book_seats(
    crossing: Literal["morning", "noon", "evening"],
    seats: Annotated[int, Field(ge=1, le=10)],
    name: Annotated[str, Field(description="The passenger's name.")],
    context: Context,
) -> str:
    """Books seats on a crossing and returns the booking's ID."""
    meta: dict[str, Any] = dict(context.request_context.meta or {})
    try:
        return office.book(crossing, seats, name, meta.get("Idempotency-Key")).id
    except LookupError as problem:
        return f"Not booked. {problem}"


@server.tool(annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=True))
def cancel_booking(id: Annotated[str, Field(pattern="^T[0-9]{4}$")]) -> str:
    """Cancels a booking."""
    office.cancel(id)
    return "cancelled"


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8202
    server.run("streamable-http", host="127.0.0.1", port=port, json_response=True)

"""The demo's questions and the files they are about."""

from dataclasses import dataclass

DOCUMENTS = (
    "examples/documents/skarholm-line-handbook.md",
    "examples/documents/skarholm-cafe.html",
    "examples/documents/skarholm-crossings-2025.csv",
)
KNOWLEDGE_BASE = "Skarholm Line"
SEARCH = "dog on the ferry"
BROKEN = "examples/agents/broken.yaml"


@dataclass(frozen=True)
class Part:
    """A session: the agent's file and the messages to send."""

    title: str
    agent: str
    questions: tuple[str, ...]


AGENTS = (
    Part(
        "Talk with an llm_agent that answers from documents",
        "examples/agents/assistant.yaml",
        (
            "When was the Skarholm Line founded, and by whom?",
            "What is paid back when a crossing arrives late?",
            "And who is the harbour master?",
        ),
    ),
    Part(
        "Let a react_agent use tools and search",
        "examples/agents/analyst.yaml",
        (
            "Two adults and two children take the car to Skarholm and back. What is 2 * (245 + 84 + 2 * 42)?",
            "What time is it in Oslo now?",
            "How many crossings were cancelled in November 2025?",
        ),
    ),
)


MINUTES = "examples/artifacts/skarholm-meeting-2026.docx"
TICKETS = "examples/artifacts/skarholm-tickets-2025.xlsx"
CLERK = Part(
    "Hand an agent a document and a spreadsheet",
    "examples/agents/clerk.yaml",
    (
        "Who was elected chair, and with how many votes?",
        "Which route had the most passengers in July?",
        "What was the income per month? Save it as income-2025.xlsx.",
    ),
)
CASHIER = Part(
    "Let a person allow a call, and your program make one",
    "examples/agents/cashier.yaml",
    ("What is 3 * 245, and how many free seats has crossing 4711?",),
)
FREE_SEATS = 118
"""The result that the demo gives for the agent's own tool."""
HANDED_OVER = (MINUTES, TICKETS, None)
"""The file attached to each message; the last message has none and uses the earlier ones."""

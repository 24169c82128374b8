"""What is asked in the demo."""

from dataclasses import dataclass

DOCUMENT = "examples/documents/skarholm-line-handbook.md"
BROKEN = "examples/agents/broken.yaml"


@dataclass(frozen=True)
class Part:
    """A session with the agent of a file, and the messages it is sent."""

    title: str
    agent: str
    questions: tuple[str, ...]


AGENTS = (
    Part(
        "Talk with an llm_agent about a document",
        "examples/agents/assistant.yaml",
        (
            "When was the Skarholm Line founded, and by whom?",
            "What is paid back when a crossing arrives late?",
            "And who is the harbour master?",
        ),
    ),
    Part(
        "Let a react_agent use tools",
        "examples/agents/analyst.yaml",
        (
            "Two adults and two children take the car to Skarholm and back. What is 2 * (245 + 84 + 2 * 42)?",
            "What time is it in Oslo now?",
        ),
    ),
)

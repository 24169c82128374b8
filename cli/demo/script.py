"""What is asked in the demo."""

from dataclasses import dataclass

DOCUMENT = "examples/documents/lighthouse.md"
BROKEN = "examples/agents/broken.yaml"


@dataclass(frozen=True)
class Part:
    """A session with the agent of a file, and the messages it is sent."""

    title: str
    agent: str
    questions: tuple[str, ...]


AGENTS = (
    Part("Talk with an llm_agent about a document", "examples/agents/assistant.yaml", ("What is this about?",)),
    Part("Let a react_agent use tools", "examples/agents/analyst.yaml", ("What is 17.5 % of 1280?",)),
)

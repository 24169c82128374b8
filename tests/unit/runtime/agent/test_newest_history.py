from services.runtime.domain.conversation import (
    AssistantMessage,
    ImagePart,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from services.runtime.use_cases.agent.context_builder import newest_history
from tests.support.agent_fakes import said

HISTORY = (said("a" * 10), AssistantMessage("b" * 10), said("c" * 10), AssistantMessage("d" * 10))


def test_all_of_a_short_history_is_kept() -> None:
    assert newest_history(HISTORY, 40) == HISTORY


def test_whole_messages_go_from_the_oldest_on_and_a_user_begins() -> None:
    assert newest_history(HISTORY, 39) == HISTORY[2:]
    assert newest_history(HISTORY, 15) == ()


def test_an_image_has_a_size() -> None:
    history = (UserMessage((ImagePart("https://x/y.png"),)), AssistantMessage("b"))
    assert newest_history(history, 3_000) == ()
    assert newest_history(history, 5_000) == history


def turn(question: str, output: str, text: str = "") -> tuple[Message, ...]:
    call = ToolCall("c", "f", {})
    return (said(question), AssistantMessage(text, (call,)), ToolMessage(ToolResult("c", "f", output)))


def test_calls_and_results_are_part_of_a_short_history() -> None:
    history = (*turn("a", "b" * 20), AssistantMessage("c"))
    assert newest_history(history, 100) == history


def test_of_a_long_history_calls_get_half_the_newest_first() -> None:
    first, second = turn("a", "b" * 30, "so"), turn("d", "e" * 30)
    history = (*first, AssistantMessage("c"), *second, AssistantMessage("f"))
    kept = (said("a"), AssistantMessage("so"), AssistantMessage("c"), *second, AssistantMessage("f"))
    assert newest_history(history, 70) == history
    assert newest_history(history, 69) == kept
    assert newest_history(history, 50) == (*kept[:3], said("d"), AssistantMessage("f"))


def test_a_turn_of_many_results_leaves_what_was_said() -> None:
    history = (said("a" * 10), AssistantMessage("b"), *turn("c", "d" * 1000), AssistantMessage("e"))
    assert newest_history(history, 100) == (said("a" * 10), AssistantMessage("b"), said("c"), AssistantMessage("e"))

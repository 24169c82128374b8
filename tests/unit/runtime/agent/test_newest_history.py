from services.runtime.domain.conversation import AssistantMessage, ImagePart, UserMessage
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

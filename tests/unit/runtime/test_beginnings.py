"""Histories that sessions begin with."""

import pytest

from libs.contracts.errors import ValidationFailed
from libs.contracts.resources.messages import HistoryMessage
from libs.contracts.resources.sessions import AddMessages
from services.runtime.domain.beginnings import history_of
from services.runtime.domain.conversation import ArtifactPart, ImagePart, TextPart, UserMessage
from services.runtime.domain.conversation_json import message_from_row, message_to_row

FILE = {
    "type": "file",
    "source": {"artifact_id": "a1"},
    "name": "cat.png",
    "content_type": "image/png",
    "processing_strategy": "vision",
    "detail": "low",
}


def test_a_file_that_was_said_is_a_reference_with_the_facts_about_it() -> None:
    address = "https://example.com/a.png"
    on_the_web = {"type": "image_url", "image_url": {"url": address, "detail": "high"}}
    said = HistoryMessage.model_validate(
        {"role": "user", "content": [{"type": "text", "text": "Look."}, FILE, on_the_web]}
    )
    sent = AddMessages.decode(AddMessages(session_id="s", messages=[said]).encode())
    [message] = history_of(sent.messages)
    cat = ArtifactPart("a1", "cat.png", "image/png", "vision", detail="low")
    assert message == UserMessage((TextPart("Look."), cat, ImagePart(address, "high")))
    assert message_from_row(*message_to_row(message)) == message


def test_only_the_user_says_files() -> None:
    with pytest.raises(ValidationFailed, match="only user messages"):
        history_of([HistoryMessage.model_validate({"role": "assistant", "content": [FILE]})])

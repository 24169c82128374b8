"""What takes the place of an event that can never be sent."""

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.messages import CommandRejected, command_models
from libs.eventing._messages import EventDraft, MessageContext, is_terminal
from libs.eventing._outbox_table import RecordedEvent


def substitute_for(event: RecordedEvent, reason: str) -> EventDraft | None:
    """The failure of its command, when the event was the outcome; none otherwise."""
    if event.causation_id is None or not is_terminal(event.type):
        return None
    command = next(model for model in command_models().values() if event.type in model.outcome_types())
    info = ErrorInfo(type=ErrorKind.INTERNAL, message=f"the outcome could not be published: {reason}")
    context = MessageContext(event.company_id, event.correlation_id, event.causation_id, event.traceparent)
    return EventDraft(
        CommandRejected(error=info),
        subject=event.subject,
        context=context,
        type=command.rejected_type(),
        topic=event.topic,
        sequence=event.sequence,
    )

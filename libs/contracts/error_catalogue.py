"""All codes of errors and reasons, each with its meaning and advice. The reference page is generated from them.

In events, reasons are plain strings, so that older consumers accept new ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from libs.contracts.errors import ErrorKind


@dataclass(frozen=True, slots=True)
class Explanation:
    """One sentence each."""

    meaning: str
    advice: str


@dataclass(frozen=True, slots=True)
class ErrorEntry(Explanation):
    """An error with its HTTP status."""

    status: int


def _error(status: int, meaning: str, advice: str) -> ErrorEntry:
    return ErrorEntry(meaning, advice, status)


ERRORS: Final[Mapping[ErrorKind, ErrorEntry]] = {
    ErrorKind.INVALID_REQUEST: _error(
        400,
        "The body isn't valid JSON or YAML, or a header is malformed.",
        "Correct the request as `message` says.",
    ),
    ErrorKind.AUTHENTICATION: _error(
        401,
        "The credential is missing, unknown, revoked or expired.",
        "Send a valid key or token, by a scheme that `WWW-Authenticate` names.",
    ),
    ErrorKind.QUOTA: _error(
        403,
        "The company has reached one of its limits; `details` says which.",
        "Delete what you no longer need, or ask the operator for a higher limit.",
    ),
    ErrorKind.PERMISSION: _error(
        403,
        "The credential lacks a scope, or isn't meant for this.",
        "Use a credential that has the scope that `message` names.",
    ),
    ErrorKind.NOT_FOUND: _error(
        404,
        "It doesn't exist, or the credential may not see it.",
        "Check the path and the ID, and that the credential belongs to the same company.",
    ),
    ErrorKind.METHOD_NOT_ALLOWED: _error(
        405,
        "The path doesn't support the method.",
        "Use one of the methods in `Allow`.",
    ),
    ErrorKind.CONFLICT: _error(
        409,
        "The current state doesn't allow it.",
        "Read the current state, then decide whether to send the request again.",
    ),
    ErrorKind.TOO_LARGE: _error(
        413,
        "The body, or a file in it, is larger than its limit.",
        "Send less, or split it into several requests.",
    ),
    ErrorKind.UNSUPPORTED_MEDIA_TYPE: _error(
        415,
        "The `Content-Type` isn't supported, or a file isn't what its name says.",
        "Send a supported type, with the name that matches it.",
    ),
    ErrorKind.RANGE: _error(
        416,
        "The range is past the end of the file.",
        "Ask for a range within the length that `Content-Range` gives.",
    ),
    ErrorKind.VALIDATION: _error(
        422,
        "A field is invalid, or the `Idempotency-Key` belongs to another body.",
        "Correct each field that `details` names.",
    ),
    ErrorKind.BUDGET: _error(
        429,
        "A budget is used up; `details` says which one, and when it renews.",
        "Wait until it renews, or ask its owner to raise it.",
    ),
    ErrorKind.RATE_LIMIT: _error(
        429,
        "There are too many requests, turns, streams or transfers, or the model's provider is busy.",
        "Retry after `Retry-After` seconds.",
    ),
    ErrorKind.INTERNAL: _error(
        500,
        "Something went wrong in the service.",
        "Give the `correlation_id` to the operator.",
    ),
    ErrorKind.MODEL: _error(
        502,
        "The model's provider failed despite retries.",
        "Start another turn, with another model if the provider stays down.",
    ),
    ErrorKind.UNAVAILABLE: _error(
        503,
        "A part of the service can't be reached.",
        "Retry after `Retry-After` seconds, writes with the same `Idempotency-Key`.",
    ),
    ErrorKind.TIMEOUT: _error(
        504,
        "The write wasn't accepted in time, or a turn missed its deadline.",
        "Retry a write with the same `Idempotency-Key`; start a turn that failed again.",
    ),
}
"""By status. If two share a status, the second is its default."""


FileErrorCode = Literal[
    "empty",
    "encrypted",
    "damaged",
    "unsupported",
    "too_large",
    "timeout",
    "memory",
    "crashed",
    "ocr_missing",
    "embedding_refused",
    "given_up",
    "gone",
]
"""Why a file couldn't be processed."""

FILE_ERRORS: Final[Mapping[FileErrorCode, Explanation]] = {
    "empty": Explanation("The file contains no text.", "Upload a file with text."),
    "encrypted": Explanation("The file is protected by a password.", "Remove the password and upload the file again."),
    "damaged": Explanation(
        "The file is damaged, incomplete, or of another type than its name says.", "Save the file again and upload it."
    ),
    "unsupported": Explanation("Files of this type can't be read.", "Convert the file to a supported type."),
    "too_large": Explanation(
        "The file's content exceeds a limit, unpacked or as text.", "Split the file into smaller ones."
    ),
    "timeout": Explanation("Reading the file took too long.", "Ingest it again, or split it into smaller files."),
    "memory": Explanation("Reading the file took too much memory.", "Split the file into smaller ones."),
    "crashed": Explanation("The file crashed its reader.", "Save the file again, or convert it to another type."),
    "ocr_missing": Explanation(
        "The text is scanned, and the installation can't recognize text.",
        "Ask the operator to install tesseract, then ingest the file again.",
    ),
    "embedding_refused": Explanation(
        "The embedding provider rejected the file's text.", "Choose another embedding model, then ingest it again."
    ),
    "given_up": Explanation(
        "Several attempts failed: a service didn't respond, or the worker ended each time.", "Ingest the file again."
    ),
    "gone": Explanation("The artifact was deleted, or its bytes are missing.", "Upload it again."),
}
"""The ``code`` of ``knowledge_base.datasource.failed``, and of a file in ``datasource_errors``; the ``type`` of the
detail of ``artifact.failed``."""


class CancelReason(StrEnum):
    """Why a turn was cancelled."""

    REQUESTED = "requested"
    SESSION_DELETED = "session_deleted"
    SESSION_EXPIRED = "session_expired"


CANCEL_REASONS: Final[Mapping[CancelReason, Explanation]] = {
    CancelReason.REQUESTED: Explanation("Somebody cancelled the turn.", "Start another turn to continue."),
    CancelReason.SESSION_DELETED: Explanation("The turn's session was deleted.", "Open a new session."),
    CancelReason.SESSION_EXPIRED: Explanation(
        "The session hadn't been used for as long as such sessions are kept.", "Open a new session."
    ),
}
"""The ``reason`` of ``turn.cancelled``."""


class DisabledReason(StrEnum):
    """Why a webhook is disabled."""

    REQUESTED = "requested"
    GONE = "gone"
    UNREACHABLE = "unreachable"
    KEY_REVOKED = "key_revoked"


DISABLED_REASONS: Final[Mapping[DisabledReason, Explanation]] = {
    DisabledReason.REQUESTED: Explanation("Somebody disabled the webhook.", "Enable it."),
    DisabledReason.GONE: Explanation("The endpoint responded with 410.", "Correct the URL, then enable the webhook."),
    DisabledReason.UNREACHABLE: Explanation(
        "Nothing was delivered in five days of attempts.", "Repair the endpoint, then enable the webhook."
    ),
    DisabledReason.KEY_REVOKED: Explanation(
        "The API key that created the webhook was revoked.", "Enable the webhook with another key."
    ),
}
"""The ``reason`` of ``webhook.disabled``, and a webhook's ``disabled_reason``."""

FINDINGS: Final[Mapping[str, str]] = {
    # Any field.
    "missing": "A required field is missing.",
    "extra_forbidden": "The field or parameter doesn't exist.",
    "invalid": "The value is invalid.",
    "invalid_value": "The value is invalid.",
    "value_error": "The value isn't allowed here.",
    "blank": "The text is blank.",
    "empty": "The text is empty.",
    "enum": "The value isn't one of the allowed ones.",
    "duplicate": "The name occurs twice.",
    "int_range": "The number is out of range.",
    "number_out_of_range": "The number is too large.",
    "moment_range": "The time is out of range.",
    "too_long": "There are too many items or characters.",
    "too_many": "There are too many files.",
    "string_pattern_mismatch": "The text doesn't have the required form.",
    "null_character": "The text contains a null character.",
    "null_not_allowed": "The field can't be null.",
    "object_type": "The body isn't an object.",
    "json_schema": "The JSON Schema is invalid.",
    "schema_invalid": "The JSON Schema is invalid.",
    "schema_not_of_object": "The JSON Schema isn't that of an object.",
    "not_found": "The field names something that doesn't exist.",
    # Conventions.
    "key_reused": "The `Idempotency-Key` belongs to another body.",
    "invalid_cursor": "The cursor doesn't belong to the list.",
    "quota_exceeded": "A limit of the company is reached.",
    "budget_exceeded": "A budget is used up.",
    "busy": "The service is busy.",
    "company_backlog_full": "The company has too many messages in progress.",
    "url_refused": "The service can't send to the URL.",
    # Turns and sessions.
    "image_url_address_refused": "The image's address can't be reached.",
    "image_url_not_supported": "The image's URL isn't supported.",
    "image_not_supported": "The image's URL isn't supported.",
    "image_wrong_kind": "The artifact isn't an image.",
    "not_supported": "The content isn't supported here.",
    "wrong_kind": "The answer doesn't fit the action.",
    "unknown_call": "The result belongs to no open tool call.",
    "option_not_supported": "The model or agent doesn't support the option.",
    "context_length_exceeded": "The conversation is longer than a model gets.",
    "session_moved_on": "The session has newer turns.",
    "requires_action": "The turn waits for an approval.",
    "nothing_new": "The run has no new message.",
    "model_not_found": "The model or agent doesn't exist.",
    # Files and knowledge.
    "file_empty": "The file is empty.",
    "file_name_missing": "The file has no name.",
    "image_too_large": "The image has too many pixels.",
    "invalid_image": "The image is invalid.",
    "bytes_missing": "The artifact's bytes are missing.",
    "collection_unknown": "The collection doesn't exist.",
    "file_unknown": "The file doesn't exist.",
    "not_embedded": "The embedding provider rejected the query.",
    # Agents and toolsets.
    "reference_ambiguous": "Two fields name the agent.",
    "model_form": "The model doesn't have the form `provider:name`.",
    "model_unknown": "The provider doesn't have the model.",
    "model_unlisted": "The model isn't known by name.",
    "provider_unknown": "The model provider doesn't exist.",
    "provider_not_configured": "The model provider isn't configured.",
    "not_checked": "A service didn't respond, so this wasn't checked.",
    "tool_unknown": "The tool doesn't exist.",
    "tool_repeated": "The tool is named twice.",
    "tool_left_out": "The target's tool can't be used.",
    "tools_missing": "The agent type needs tools.",
    "tools_unused": "The agent type calls no tools.",
    "tools_unusable": "The target offers too many tools.",
    "toolset_unknown": "The toolset doesn't exist.",
    "type_unknown": "The type of toolset doesn't exist.",
    "policy_empty": "The tool policy has no setting.",
    "policy_of_client_tool": "The caller runs the tool, so a policy has no effect.",
    "policy_unmatched": "The policy names a tool that the agent lacks.",
    "policy_unused": "The policy's pattern matches no tool.",
    "knowledge_base_unknown": "The knowledge base doesn't exist.",
    "knowledge_base_repeated": "The knowledge base is attached twice.",
    "knowledge_bases_unavailable": "The installation has no knowledge bases.",
    "origin_invalid": "The value isn't an origin.",
    "url_invalid": "The value isn't an http or https URL.",
    "url_credentials": "The URL contains credentials.",
    "secret_unknown": "The secret doesn't exist.",
    "secret_reference": "The reference to a secret is malformed.",
    "secret_outside_headers": "A secret is used outside of headers.",
    "header_reserved": "The service sets the header itself.",
    "header_repeated": "The header occurs twice.",
    "placeholder_in_host": "The URL's host has a placeholder.",
    "placeholder_unknown": "The tool has no such argument.",
    "body_of_get": "A GET has a body.",
    "document_ambiguous": "Exactly one of `document` and `document_url` is needed.",
    "document_too_large": "The OpenAPI document is too large.",
    "unusable": "The target of the toolset can't be used.",
    # The OpenAI API.
    "unsupported_parameter": "The parameter isn't supported.",
    "unsupported_value": "The value isn't supported.",
    "missing_required_parameter": "A required parameter is missing.",
    "missing_user_message": "The conversation has no user message. Add one.",
    "invalid_request_error": "Two parameters exclude each other.",
    "conflict": "Two parameters exclude each other.",
    "reserved": "The name is reserved.",
    "in_collection": "The file belongs to a collection of the vector store.",
}
"""The ``type`` of an error's detail. The detail's ``hint`` says what to do.

Other types are constraints of a field, such as ``greater_than``.
"""

"""All error and reason codes, each with its meaning and advice. The reference page is generated from this module.

In events, reasons are plain strings rather than enums, so that older consumers accept new ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from libs.contracts.errors import ErrorKind


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a code, and advice on what to do, in one or two sentences each."""

    meaning: str
    advice: str


@dataclass(frozen=True, slots=True)
class ErrorEntry(Explanation):
    """The explanation of an error type, with its HTTP status."""

    status: int


def _error(status: int, meaning: str, advice: str) -> ErrorEntry:
    return ErrorEntry(meaning, advice, status)


ERRORS: Final[Mapping[ErrorKind, ErrorEntry]] = {
    ErrorKind.INVALID_REQUEST: _error(
        400,
        "The body isn't valid JSON or YAML, or a header is malformed.",
        "Correct the request as described in `message`.",
    ),
    ErrorKind.AUTHENTICATION: _error(
        401,
        "The credential is missing, unknown, revoked or expired.",
        "Send a valid key or token with a scheme listed in `WWW-Authenticate`.",
    ),
    ErrorKind.QUOTA: _error(
        403,
        "The company has reached one of its limits; see `details`.",
        "Delete what you no longer need, or ask the operator for a higher limit.",
    ),
    ErrorKind.PERMISSION: _error(
        403,
        "The credential lacks a scope, or can't be used for this operation.",
        "Use a credential with the scope given in `message`.",
    ),
    ErrorKind.NOT_FOUND: _error(
        404,
        "The resource doesn't exist, or the credential can't access it.",
        "Check the path, the ID, and whether the credential belongs to the right company.",
    ),
    ErrorKind.METHOD_NOT_ALLOWED: _error(
        405,
        "The path doesn't support the method.",
        "Use one of the methods in `Allow`.",
    ),
    ErrorKind.CONFLICT: _error(
        409,
        "The resource's current state doesn't allow the request.",
        "Get the resource, then decide whether to send the request again.",
    ),
    ErrorKind.TOO_LARGE: _error(
        413,
        "The body, or a file in it, exceeds its size limit.",
        "Reduce the size, or split the content across several requests.",
    ),
    ErrorKind.UNSUPPORTED_MEDIA_TYPE: _error(
        415,
        "The `Content-Type` isn't supported, or a file's content doesn't match its extension.",
        "Use a supported `Content-Type`. For files, use the extension that matches the content.",
    ),
    ErrorKind.RANGE: _error(
        416,
        "The range is past the end of the file.",
        "Request a range within the length given in `Content-Range`.",
    ),
    ErrorKind.VALIDATION: _error(
        422,
        "A field is invalid, or the `Idempotency-Key` was used with a different body.",
        "Correct each field listed in `details`.",
    ),
    ErrorKind.BUDGET: _error(
        429,
        "A budget is used up; `details` says which budget, and when it renews.",
        "Wait until the budget renews, or ask its owner to increase it.",
    ),
    ErrorKind.RATE_LIMIT: _error(
        429,
        "There are too many requests, turns, streams or transfers, or the model provider is busy.",
        "Retry after `Retry-After` seconds.",
    ),
    ErrorKind.INTERNAL: _error(
        500,
        "An unexpected error occurred in the service.",
        "Give the `correlation_id` to the operator.",
    ),
    ErrorKind.MODEL: _error(
        502,
        "The model provider failed or refused the call, or the reply doesn't match the `output_schema`.",
        "Fix what `message` describes, or start a new turn, possibly with another model.",
    ),
    ErrorKind.UNAVAILABLE: _error(
        503,
        "Part of the service is unavailable.",
        "Retry after `Retry-After` seconds. Send writes with the same `Idempotency-Key`.",
    ),
    ErrorKind.TIMEOUT: _error(
        504,
        "The write wasn't accepted in time, or a turn missed its deadline.",
        "Retry a write with the same `Idempotency-Key`. If a turn failed, start a new one.",
    ),
}
"""The errors by type, sorted by status. The last error with a status is the default for that status."""


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
    "encrypted": Explanation("The file is password-protected.", "Remove the password and upload the file again."),
    "damaged": Explanation(
        "The file is damaged or incomplete, or its type doesn't match its extension.",
        "Save the file again and upload it.",
    ),
    "unsupported": Explanation("Files of this type aren't supported.", "Convert the file to a supported type."),
    "too_large": Explanation(
        "The file's uncompressed content or its text exceeds a limit.", "Split the file into smaller ones."
    ),
    "timeout": Explanation("Reading the file took too long.", "Ingest the file again, or split it into smaller ones."),
    "memory": Explanation("Reading the file took too much memory.", "Split the file into smaller ones."),
    "crashed": Explanation("The parser crashed on the file.", "Save the file again, or convert it to another type."),
    "ocr_missing": Explanation(
        "The file is a scan, and OCR isn't installed.",
        "Ask the operator to install tesseract, then ingest the file again.",
    ),
    "embedding_refused": Explanation(
        "The embedding provider rejected the file's text.",
        "Choose another embedding model, then ingest the file again.",
    ),
    "given_up": Explanation(
        "Every attempt failed because a service didn't respond or a worker stopped.", "Ingest the file again."
    ),
    "gone": Explanation("The artifact was deleted, or its content is missing.", "Upload the file again."),
}
"""The values of ``code`` in ``knowledge_base.datasource.failed`` and ``datasource_errors``, and of the error detail's
``type`` in ``artifact.failed``.
"""


class CancelReason(StrEnum):
    """The reason why a turn was cancelled."""

    REQUESTED = "requested"
    SESSION_DELETED = "session_deleted"
    SESSION_EXPIRED = "session_expired"


CANCEL_REASONS: Final[Mapping[CancelReason, Explanation]] = {
    CancelReason.REQUESTED: Explanation("Someone cancelled the turn.", "Start a new turn to continue."),
    CancelReason.SESSION_DELETED: Explanation("The turn's session was deleted.", "Create a new session."),
    CancelReason.SESSION_EXPIRED: Explanation("The turn's session expired and was deleted.", "Create a new session."),
}
"""The values of ``reason`` in ``turn.cancelled``."""


class DisabledReason(StrEnum):
    """The reason why a webhook was disabled."""

    REQUESTED = "requested"
    GONE = "gone"
    UNREACHABLE = "unreachable"
    KEY_REVOKED = "key_revoked"


DISABLED_REASONS: Final[Mapping[DisabledReason, Explanation]] = {
    DisabledReason.REQUESTED: Explanation("Someone disabled the webhook.", "Enable it."),
    DisabledReason.GONE: Explanation("The endpoint responded with 410.", "Correct the URL, then enable the webhook."),
    DisabledReason.UNREACHABLE: Explanation(
        "No delivery succeeded for five days.", "Fix the endpoint, then enable the webhook."
    ),
    DisabledReason.KEY_REVOKED: Explanation(
        "The API key that created the webhook was revoked.", "Enable the webhook again with another key."
    ),
}
"""The values of ``reason`` in ``webhook.disabled`` and of a webhook's ``disabled_reason``."""

FINDINGS: Final[Mapping[str, str]] = {
    # Details of any field.
    "missing": "A required field is missing.",
    "extra_forbidden": "The field or parameter doesn't exist.",
    "invalid": "The value is invalid.",
    "invalid_value": "The value is invalid.",
    "value_error": "The value isn't allowed here.",
    "empty": "The text is empty.",
    "enum": "The value isn't one of the allowed values.",
    "duplicate": "The name is used twice.",
    "int_range": "The number is out of range.",
    "number_out_of_range": "The number is too large.",
    "moment_range": "The time is out of range.",
    "too_long": "There are too many items or characters.",
    "too_many": "There are too many files.",
    "string_pattern_mismatch": "The text doesn't match the required format.",
    "null_character": "The text contains a null character.",
    "null_not_allowed": "The field can't be `null`.",
    "object_type": "The body isn't an object.",
    "json_schema": "The JSON Schema is invalid.",
    "schema_invalid": "The JSON Schema is invalid.",
    "schema_not_of_object": "The JSON Schema doesn't describe an object.",
    "not_found": "The field refers to something that doesn't exist.",
    # Conventions of the API.
    "key_reused": "The `Idempotency-Key` was used with a different body.",
    "invalid_cursor": "The cursor isn't valid for this list.",
    "quota_exceeded": "The company has reached a limit.",
    "budget_exceeded": "A budget is used up.",
    "busy": "The service is busy.",
    "company_backlog_full": "The company has too many unfinished turns.",
    "url_refused": "The service isn't allowed to send requests to the URL.",
    # Turns and sessions.
    "image_url_address_refused": "The service isn't allowed to fetch the image.",
    "image_url_not_supported": "The image's URL isn't supported.",
    "image_not_supported": "The image's URL isn't supported.",
    "image_wrong_kind": "The artifact isn't an image.",
    "not_supported": "The content isn't supported here.",
    "wrong_kind": "The content or answer has the wrong type.",
    "unknown_call": "The result doesn't belong to an open tool call.",
    "option_not_supported": "The model or agent doesn't support the option.",
    "context_length_exceeded": "The conversation exceeds the model's context window.",
    "session_moved_on": "The session has newer turns.",
    "requires_action": "The turn is waiting for an approval.",
    "nothing_new": "The request has no new message.",
    "model_not_found": "The model or agent doesn't exist.",
    # Files and knowledge.
    "file_empty": "The file is empty.",
    "file_name_missing": "The file has no name.",
    "image_too_large": "The image has too many pixels.",
    "invalid_image": "The image is invalid.",
    "bytes_missing": "The artifact's content is missing.",
    "collection_unknown": "The collection doesn't exist.",
    "file_unknown": "The file doesn't exist.",
    "not_embedded": "The embedding provider rejected the query.",
    # Agents and toolsets.
    "reference_ambiguous": "The agent must be specified by ID or by key, not both.",
    "model_form": "The model isn't in the format `provider:name`.",
    "model_unknown": "The provider doesn't offer the model.",
    "model_unlisted": "The model isn't in the provider's list of models.",
    "provider_unknown": "The model provider doesn't exist.",
    "provider_not_configured": "The model provider isn't configured.",
    "not_checked": "Part of the configuration wasn't checked because a service didn't respond.",
    "tool_unknown": "The tool doesn't exist.",
    "tool_repeated": "The tool is listed twice.",
    "tool_left_out": "One of the target's tools can't be used and was skipped.",
    "tools_missing": "The agent type needs tools.",
    "tools_unused": "The agent type doesn't use tools.",
    "tools_unusable": "None of the target's tools can be used.",
    "toolset_unknown": "The toolset doesn't exist.",
    "policy_empty": "The tool policy has no settings.",
    "policy_of_client_tool": "The caller runs the tool, so the policy has no effect.",
    "policy_unmatched": "The policy refers to a tool that the agent doesn't have.",
    "policy_unused": "The policy's pattern doesn't match any tool.",
    "knowledge_base_unknown": "The knowledge base doesn't exist.",
    "knowledge_base_repeated": "The knowledge base is attached twice.",
    "knowledge_bases_unavailable": "Knowledge bases aren't available in this installation.",
    "origin_invalid": "The value isn't a web origin.",
    "url_invalid": "The value isn't an http or https URL.",
    "url_credentials": "The URL contains credentials.",
    "secret_unknown": "The secret doesn't exist.",
    "secret_reference": "The reference to a secret is malformed.",
    "secret_outside_headers": "A secret is used somewhere other than in a header.",
    "header_reserved": "The header is reserved for the service.",
    "header_repeated": "The header is set twice.",
    "placeholder_in_host": "The URL's host has a placeholder.",
    "placeholder_unknown": "The placeholder doesn't match any of the tool's arguments.",
    "body_of_get": "A GET request can't have a body.",
    "document_ambiguous": "Exactly one of `document` and `document_url` is needed.",
    "document_too_large": "The OpenAPI document is too large.",
    "unusable": "The toolset's target can't be used.",
    # The OpenAI API.
    "unsupported_parameter": "The parameter isn't supported.",
    "unsupported_value": "The value isn't supported.",
    "missing_required_parameter": "A required parameter is missing.",
    "missing_user_message": "The conversation has no user message.",
    "invalid_request_error": "Two parameters can't be combined.",
    "conflict": "Two parameters can't be combined.",
    "reserved": "The name is reserved.",
    "in_collection": "The file belongs to one of the vector store's collections.",
}
"""The values of an error detail's ``type``. All other values are field constraints, such as ``greater_than``."""

"""Errors for unreadable files."""

from libs.confined import JobRefused


class DocumentUnreadable(JobRefused):
    """The file can't be read; the message is for its owner."""


class DocumentEncrypted(DocumentUnreadable):
    def __init__(self) -> None:
        super().__init__("The file is protected by a password.")

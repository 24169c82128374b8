"""Errors of unreadable files."""

from libs.confined import JobRefused


class DocumentUnreadable(JobRefused):
    """The file can't be read. The message is for its owner."""


class DocumentEncrypted(DocumentUnreadable):
    def __init__(self) -> None:
        super().__init__("The file is password-protected.")

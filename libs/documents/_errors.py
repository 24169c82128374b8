"""Errors for files that can't be read."""

from libs.confined import JobRefused


class DocumentUnreadable(JobRefused):
    """The file can't be read."""


class DocumentEncrypted(DocumentUnreadable):
    def __init__(self) -> None:
        super().__init__("The file is password-protected. Upload a copy without a password.")

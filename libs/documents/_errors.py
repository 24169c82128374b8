"""The error for a file that can't be read."""

from libs.confined import JobRefused


class DocumentUnreadable(JobRefused):
    """The file can't be read. The message can be shown to the user who supplied the file."""


class DocumentEncrypted(DocumentUnreadable):
    def __init__(self) -> None:
        super().__init__("The file is password-protected.")

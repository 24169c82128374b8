"""What must hold for every file that comes in, looked at while it passes."""

from collections.abc import AsyncIterator, Callable

from libs.contracts.errors import ErrorDetail, TooLarge, ValidationFailed


async def checked_pieces(
    name: str, pieces: AsyncIterator[bytes], look: Callable[[bytes], None], *, head_bytes: int, max_bytes: int
) -> AsyncIterator[bytes]:
    """The pieces themselves, the first ``head_bytes`` of them at once.

    ``look`` gets what the file begins with, all of a shorter one, before anything is passed on; what it raises ends
    the upload. Raises ``TooLarge``, and ``ValidationFailed`` for a file without content.
    """
    size, head, is_checked = 0, bytearray(), False
    async for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise TooLarge(f"'{name}' is larger than {max_bytes} bytes.")
        if is_checked:
            yield piece
            continue
        head += piece
        if len(head) >= head_bytes:
            look(bytes(head))
            is_checked = True
            yield bytes(head)
            head.clear()
    if size == 0:
        raise invalid_file(f"'{name}' is empty.", "file_empty", "send a file with content")
    if not is_checked:
        look(bytes(head))
        yield bytes(head)


def invalid_file(message: str, kind: str, hint: str) -> ValidationFailed:
    return ValidationFailed(message, details=[ErrorDetail(loc=["file"], type=kind, message=message, hint=hint)])

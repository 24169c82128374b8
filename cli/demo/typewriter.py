"""Prints a text that arrives in pieces, wrapped at words and indented, word by word."""

from collections.abc import Callable
from typing import Self

from rich.cells import cell_len


class Typewriter:
    """Prints indented text; `begin` prints the text before the first line, of width `indent`."""

    def __init__(self, write: Callable[[str], None], begin: Callable[[], None], indent: int, width: int) -> None:
        self._write = write
        self._begin = begin
        self._indent = indent
        self._width = width
        self._column = 0
        self._breaks = 0
        self._space = ""
        self._word = ""

    def __enter__(self) -> Self:
        self._begin()
        self._column = self._indent
        return self

    def __exit__(self, *_: object) -> None:
        self._end_word()
        self._write("\n")

    def feed(self, piece: str) -> None:
        for character in piece:
            if character == "\n":
                self._end_word()
                self._space = ""
                self._breaks += 1
            elif character.isspace():
                self._end_word()
                self._space = " "
            elif character.isprintable():
                # Control characters could change the terminal's state.
                self._word += character

    def _end_word(self) -> None:
        while self._word:
            # Line breaks are held back until something follows them, so that none trail the text.
            room = self._width - self._column - len(self._space)
            if self._breaks:
                self._new_line(min(self._breaks, 2))
            elif cell_len(self._word) > room and self._column > self._indent:
                self._new_line(1)
            head = self._fitting(self._word, self._width - self._column - len(self._space))
            self._write(self._space + head)
            self._column += len(self._space) + cell_len(head)
            self._space = ""
            self._word = self._word[len(head) :]

    def _new_line(self, breaks: int) -> None:
        self._write("\n" * breaks + " " * self._indent)
        self._column = self._indent
        self._space = ""
        self._breaks = 0

    @staticmethod
    def _fitting(word: str, room: int) -> str:
        head = ""
        for character in word:
            if head and cell_len(head + character) > room:
                break
            head += character
        return head

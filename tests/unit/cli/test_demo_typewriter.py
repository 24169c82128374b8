import pytest

from cli.demo.view import Typewriter


def typed(*pieces: str, width: int = 20, indent: int = 4) -> str:
    out: list[str] = []
    with Typewriter(out.append, lambda: out.append("who:"), indent, width) as writer:
        for piece in pieces:
            writer.feed(piece)
    return "".join(out)


def test_text_is_wrapped_at_words_and_indented() -> None:
    assert typed("one two three four five") == "who:one two three\n    four five\n"


def test_pieces_may_cut_words_anywhere() -> None:
    text = "one two three four five"
    assert typed(*text) == typed(text) == typed(text[:9], text[9:])


@pytest.mark.parametrize("text", ["x" * 50, "日本語" * 12])
def test_no_line_is_wider_than_the_screen(text: str) -> None:
    from rich.cells import cell_len

    lines = typed(text).splitlines()
    assert all(cell_len(line) <= 20 for line in lines)
    assert "".join(line[4:] for line in lines) == text


def test_paragraphs_stay_and_the_end_has_no_empty_lines() -> None:
    assert typed("one\n\n\n\ntwo\n\n") == "who:one\n\n    two\n"


def test_what_could_steer_the_terminal_is_left_out() -> None:
    assert typed("a\x1b[31mb\x07\r c") == "who:a[31mb c\n"

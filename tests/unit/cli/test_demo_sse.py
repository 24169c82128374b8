import json

from cli.demo.sse import ServerEvent, events_in, lines_in


def test_events_come_whole_however_their_bytes_are_cut() -> None:
    text = "one\u2028two\u0085three\rfour é"
    wire = f"event: turn.completed\ndata: {json.dumps({'text': text}, ensure_ascii=False)}\n\n: alive\n\n".encode()
    pieces = [wire[at : at + 3] for at in range(0, len(wire), 3)]

    assert list(events_in(lines_in(pieces))) == [ServerEvent("turn.completed", {"text": text})]


def test_carriage_returns_before_line_feeds_are_no_part_of_a_line() -> None:
    assert list(events_in(lines_in([b'event: a\r\ndata: {"x": 1}\r\n\r\n']))) == [ServerEvent("a", {"x": 1})]

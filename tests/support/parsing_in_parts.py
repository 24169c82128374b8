"""A parsing process that tells of a part every half second, ``parts`` of them, before it answers."""

import sys

from services.ingestion.adapters.parsing import frames
from tests.support.waiting import pace_blocking


def main() -> None:
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    frames.expect(requests)
    frames.write(answers, {"ready": True})
    while (frame := frames.read(requests)) is not None:
        for _ in range(frame[0]["parts"]):
            pace_blocking(0.5)
            frames.write(answers, {"part_done": True})
        frames.write(answers, {"done": True}, b"all of it")


if __name__ == "__main__":
    main()

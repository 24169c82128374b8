"""A parsing process that tells of a part every half second, ``parts`` of them, before it answers."""

import sys
import time

from services.ingestion.adapters.parsing import frames


def main() -> None:
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    frames.expect(requests)
    frames.write(answers, {"ready": True})
    while (frame := frames.read(requests)) is not None:
        for _ in range(frame[0]["parts"]):
            time.sleep(0.5)
            frames.write(answers, {"part_done": True})
        frames.write(answers, {"done": True}, b"all of it")


if __name__ == "__main__":
    main()

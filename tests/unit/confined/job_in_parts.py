"""A confined process that tells of a part every half second, ``parts`` of them, before it answers."""

from libs.confined import PartDone, answer_jobs
from tests.support.waiting import pace_blocking


def work(job: dict[str, int], _: bytes, part_done: PartDone) -> tuple[dict[str, bool], bytes]:
    for _part in range(job["parts"]):
        pace_blocking(0.5)
        part_done()
    return {"done": True}, b"all of it"


if __name__ == "__main__":
    answer_jobs(work)

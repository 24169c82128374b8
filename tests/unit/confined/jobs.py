"""A confined process that does what the job names."""

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from libs.confined import JobRefused, answer_job


def work(job: dict[str, Any]) -> dict[str, Any]:
    match job["do"]:
        case "show":
            return {
                "environment": dict(os.environ),
                "niceness": os.nice(0),
                "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
                "directory": os.getcwd(),
                "files": {path.name: path.read_text() for path in Path().iterdir()},
                "arguments": sys.argv,
            }
        case "change":
            Path(job["file"]).write_text("changed")
            return {}
        case "refuse":
            raise JobRefused("not this one")
        case "grow":
            bytearray(2**31)
        case "flood":
            return {"flood": "x" * 2**25}
        case "die":
            os.abort()
        case "fail":
            raise RuntimeError("a fault of ours")
        case "start a child":
            child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
            return {"pid": child.pid}
    raise AssertionError(job)


if __name__ == "__main__":
    answer_job(work)

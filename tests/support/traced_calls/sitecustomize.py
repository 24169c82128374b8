"""Records which function of the project calls which, in every Python process that has this folder on its `PYTHONPATH`.

`AES_TRACED_CALLS` names a folder. While it holds a file `on`, calls are recorded; when the file goes, each process
writes `calls-PID.json`: a list of pairs of places, `FILE:FUNCTION`, of which the first is empty where the event loop or
a thread began, such as a task or a callback. `on-PID` exists while a process records. A coroutine that goes on is not
called again.
"""

import json
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_ROOT = str(Path(__file__).resolve().parents[3]) + os.sep
_LOOK_SECONDS = 0.005
# The timeline follows the same topics in the gateway's process; no turn waits for it.
_READERS_OF_THE_LOG = ("libs/eventing/batches.py",)


class _Recorder:
    """Calls between files, not within one, of the files for which ``counts`` is true."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_on = False
        self._pairs: set[tuple[str, str]] = set()
        self._places: dict[CodeType, tuple[str, str] | None] = {}
        self._begins: dict[tuple[CodeType, int], bool] = {}

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _watch(self) -> None:
        own, pause = self._folder / f"on-{os.getpid()}", threading.Event()
        while True:
            pause.wait(_LOOK_SECONDS)
            if (self._folder / "on").exists() == self._is_on:
                continue
            self._is_on = not self._is_on
            if self._is_on:
                self._pairs.clear()
                own.touch()
            else:
                written = self._folder / f"calls-{os.getpid()}.part"
                written.write_text(json.dumps(sorted(self._pairs)))
                written.rename(written.with_suffix(".json"))
                own.unlink()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._is_on or event != "call" or (called := self._place(frame.f_code)) is None:
            return
        if frame.f_code.co_filename.endswith(_READERS_OF_THE_LOG):
            return
        if not self._is_begun(frame.f_code, frame.f_lasti):
            return
        found = None
        caller = frame.f_back
        while caller is not None:
            if caller.f_code.co_filename.endswith(_READERS_OF_THE_LOG):
                return
            found = found or self._place(caller.f_code)
            caller = caller.f_back
        if found is None:
            self._pairs.add(("", ":".join(called)))
        elif found[0] != called[0]:
            self._pairs.add((":".join(found), ":".join(called)))

    def _is_begun(self, code: CodeType, instruction: int) -> bool:
        """Whether this is a call, and no coroutine or generator that goes on: by the argument of `RESUME`."""
        if (code, instruction) not in self._begins:
            self._begins[code, instruction] = code.co_code[instruction + 1] == 0
        return self._begins[code, instruction]

    def _place(self, code: CodeType) -> tuple[str, str] | None:
        if code not in self._places:
            self._places[code] = _place(code)
        return self._places[code]


def _place(code: CodeType) -> tuple[str, str] | None:
    file = code.co_filename
    if not file.startswith((f"{_ROOT}services{os.sep}", f"{_ROOT}libs{os.sep}")) or code.co_name == "<module>":
        return None
    place = file.removeprefix(_ROOT)
    return None if _is_beside_the_path(place) else (place, code.co_qualname)


def _is_beside_the_path(file: str) -> bool:
    """Values, what is called from everywhere (errors, spans, logs, metrics, tries), and what starts the event loop."""
    values = ("identifiers", "timestamps", "identity", "errors")
    return (
        file in {f"libs/contracts/{name}.py" for name in values}
        or file.startswith(("libs/tracing/", "libs/retry/"))
        or Path(file).stem.strip("_") in {"command_line", "logging", "metrics", "observed"}
    )


if _named := os.environ.get("AES_TRACED_CALLS"):
    _Recorder(Path(_named)).start()

"""Records which function of the project calls which, in every Python process that has this folder on its `PYTHONPATH`.

`AES_TRACED_CALLS` names a folder. While it holds a file `on`, calls are recorded; when the file goes, each process
writes `calls-PID.json`: a list of pairs of places, `FILE:FUNCTION`, of which the first is empty where nothing of the
project called, but the event loop, for a message that has come, or a thread. `on-PID` exists while a process records.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_ROOT = str(Path(__file__).resolve().parents[3]) + os.sep
_LOOK_SECONDS = 0.005


class _Recorder:
    """Calls between files, not within one, of the files for which ``counts`` is true."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_on = False
        self._pairs: set[tuple[str, str]] = set()
        self._places: dict[CodeType, tuple[str, str] | None] = {}

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _watch(self) -> None:
        own = self._folder / f"on-{os.getpid()}"
        while True:
            time.sleep(_LOOK_SECONDS)
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
        caller, found = frame.f_back, None
        while caller is not None and (found := self._place(caller.f_code)) is None:
            caller = caller.f_back
        if found is None:
            self._pairs.add(("", ":".join(called)))
        elif found[0] != called[0]:
            self._pairs.add((":".join(found), ":".join(called)))

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
    """Values, and what is called from everywhere: identifiers, errors, spans, logs, metrics, tries."""
    values = ("identifiers", "timestamps", "identity", "errors")
    return (
        file in {f"libs/contracts/{name}.py" for name in values}
        or file.startswith(("libs/tracing/", "libs/retry/"))
        or Path(file).stem.strip("_") in {"logging", "metrics", "observed"}
    )


if _named := os.environ.get("AES_TRACED_CALLS"):
    _Recorder(Path(_named)).start()

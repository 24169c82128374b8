"""The kernel's account of the running thread."""

from pathlib import Path

_ACCOUNT = Path("/proc/thread-self/schedstat")


def waited_for_a_processor() -> float:
    """Seconds in which this thread had work and no processor to do it on; 0 where the kernel does not tell."""
    try:
        return int(_ACCOUNT.read_bytes().split()[1]) / 1e9
    except OSError:
        return 0.0

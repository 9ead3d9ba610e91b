"""Waiting for what a server does in its own time."""

import time


def until(what: str, holds, seconds: float = 30, told=lambda: "", every: float = 0.1):
    """Waits until `holds()` is true and returns what it gave."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}\n{told()}"
        time.sleep(every)
    return found

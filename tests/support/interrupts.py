"""Ctrl-C between any two lines of the runtime."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def interrupted(call: Callable[[], object], line: int, where: str = "tessera/runtime/") -> bool:
    """Run `call`, with KeyboardInterrupt before the `line`-th line that it executes in files of `where`.

    Returns whether it came to that line.
    """
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if where not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False

# What the standard library's `signal` is made of, without its enumerations: the part of it that is used.

from collections.abc import Callable
from types import FrameType

def getsignal(signalnum: int, /) -> Callable[[int, FrameType | None], object] | int | None: ...
def signal(
    signalnum: int, handler: Callable[[int, FrameType | None], object] | int, /
) -> Callable[[int, FrameType | None], object] | int | None: ...

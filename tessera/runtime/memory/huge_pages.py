"""Ask for large pages below large arrays: a fresh array of 64 MiB has 16384 pages of 4 KiB, and each one is a fault.

Threads that touch such an array for the first time spend more time in the kernel, which makes pages one at a time, than
in their own work.  NumPy asks for large pages by itself, PyTorch does not.
"""

import ctypes
import functools
import mmap
from collections.abc import Callable
from typing import Final

LEAST: Final = 4 << 20
"""Bytes of an array for which one asks, as in NumPy."""
_ADVICE: Final = getattr(mmap, "MADV_HUGEPAGE", None)


def prefer_huge_pages(address: int, size: int) -> bool:
    """Ask for large pages from `address` on; return whether the system agreed.  It changes no content."""
    start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (address + size - start) // mmap.PAGESIZE * mmap.PAGESIZE
    if _ADVICE is None or size <= 0:
        return False
    return _madvise()(start, size, _ADVICE) == 0


@functools.cache
def _madvise() -> Callable[[int, int, int], int]:
    function = ctypes.PyDLL(None).madvise
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return function

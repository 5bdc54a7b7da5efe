"""Large pages below large arrays."""

import mmap
import sys

import numpy as np
import pytest

from tessera.runtime.memory.huge_pages import LEAST, prefer_huge_pages

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")


@linux
def test_an_array_keeps_what_it_holds():
    array = np.arange(LEAST // 4, dtype=np.int32)
    prefer_huge_pages(array.ctypes.data + 3, array.nbytes - 3)
    np.testing.assert_array_equal(array, np.arange(LEAST // 4))


@linux
def test_memory_of_nobody_is_refused():
    assert not prefer_huge_pages((1 << 47) + mmap.PAGESIZE, LEAST)


def test_less_than_a_page_is_left_alone():
    assert not prefer_huge_pages(mmap.PAGESIZE + 8, mmap.PAGESIZE)

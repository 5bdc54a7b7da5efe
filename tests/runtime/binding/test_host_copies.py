"""NumPy arrays as arguments of a launch on a GPU: what is copied, when, and what is given back."""

import numpy as np
import pytest

from support.fake_cuda import FakeDriver
from tessera.core.artifact import Binding
from tessera.core.base.dtypes import f32
from tessera.core.base.source import Span
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CudaFailure, NotAnArray, ReadOnlyArray
from tessera.core.program.types import Array
from tessera.runtime.arrays.pointers import address
from tessera.runtime.binding.host_copies import HostArguments, host_array

SPAN = Span("k.py", 1, 1, 1, 2)


def binding(*, mutable: bool = False) -> Binding:
    return Binding("x", Array(f32, ("n",), contiguous=True), mutable, SPAN)


def test_what_can_be_copied_as_it_lies():
    x = np.zeros(4, np.float32)
    assert host_array(x, binding(mutable=True)) is x
    x.flags.writeable = False
    assert host_array(x, binding()) is x


@pytest.mark.parametrize(
    ("value", "mistake", "words"),
    [
        ([1.0], NotAnArray, "got a list"),
        (np.zeros((4, 4), np.float32)[:, ::2], NotAnArray, "x has gaps"),
        (np.broadcast_to(np.float32(1), ()), ReadOnlyArray, "x is written"),
    ],
)
def test_what_cannot(value: object, mistake: type[TesseraError], words: str):
    with pytest.raises(mistake, match=words) as caught:
        host_array(value, binding(mutable=True))
    assert caught.value.span == SPAN


def test_each_place_is_copied_once_and_back_where_it_is_written():
    fake, x, y = FakeDriver(), np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    copies = HostArguments(fake, 5)
    assert not copies
    stands = [copies.on_device(a, written=w) for a, w in ((x, False), (x[:], True), (y, False))]
    assert copies
    assert address(stands[0]) == address(stands[1]) != address(stands[2])
    assert len(fake.memory) == 2
    for start in fake.memory:
        fake.memory[start][:] = 0
    copies.copy_back()
    assert fake.waited == 1
    np.testing.assert_array_equal(x, np.zeros(4))
    np.testing.assert_array_equal(y, np.zeros(4))
    copies.close()
    assert not fake.memory


def test_after_a_fault_there_is_nothing_to_give_back():
    fake = FakeDriver()
    copies = HostArguments(fake, 0)
    copies.on_device(np.zeros(4, np.float32), written=False)
    fake.lost = CudaFailure("a fault")
    copies.close()
    assert len(fake.memory) == 1

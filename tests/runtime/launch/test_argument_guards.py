"""Arguments that know their like again: numbers, and arrays of torch, cupy, jax and our own, by stand-ins for them."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from support import raw_kernels
from tessera.core.artifact import Binding
from tessera.core.base.dtypes import bf16, f32, i8
from tessera.core.base.source import Span
from tessera.core.program.types import Array, Scalar
from tessera.runtime.arrays import interop
from tessera.runtime.launch.argument_guards import NumberGuard, ParameterPlace, array_guard, identity
from tessera.runtime.launch.parameter_buffer import ParameterBuffer, ParameterLayout
from tessera.runtime.memory.device_arrays import standing_for

SPAN = Span("k.py", 1, 1, 1, 2)


@pytest.fixture
def place() -> ParameterPlace:
    block = ParameterBuffer(ParameterLayout(raw_kernels.spin()))
    return ParameterPlace(block, (0,))


def binding(*, mutable: bool = False, aligned: bool = False) -> Binding:
    return Binding("x", Array(f32, ("m", "n"), contiguous=False, aligned=aligned), mutable, SPAN)


def word(place: ParameterPlace) -> int:
    return place.block.word(0).value


def test_numbers_are_written_in_their_own_type(place: ParameterPlace):
    item = NumberGuard(1.5, Scalar(f32), place)
    assert item.matches_and_patch(1.5)
    assert place.block.version == 0
    assert item.matches_and_patch(-2.5)
    assert word(place) == int(np.float32(-2.5).view(np.uint32))
    assert place.block.version == 1
    assert not item.matches_and_patch(2)
    assert not item.matches_and_patch(1e60)
    assert item.matches_and_patch(-2.5)  # which has to be written once more
    assert place.block.version == 2
    assert word(place) == int(np.float32(-2.5).view(np.uint32))


def test_integers_that_do_not_fit_are_looked_at_in_full(place: ParameterPlace):
    item = NumberGuard(3, Scalar(i8), place)
    assert item.matches_and_patch(-128)
    assert word(place) == 0x80
    assert not item.matches_and_patch(128)
    assert not item.matches_and_patch(True)


def test_bf16_numbers_are_never_patched(place: ParameterPlace):
    item = NumberGuard(1.5, Scalar(bf16), place)
    value = 1.5 + len("")
    assert not item.matches_and_patch(value * 2)


class Tensor:
    """What torch's tensors answer."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...] = (4, 8),
        strides: tuple[int, ...] = (8, 1),
        dtype: str = "f32",
        device: int = 0,
        negative: bool = False,
    ) -> None:
        self.address, self.shape, self.strides, self.dtype, self.place = address, shape, strides, dtype, device
        self.negative, self.requires_grad = negative, False

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def is_contiguous(self) -> bool:
        return self.strides == (self.shape[1], 1)

    def data_ptr(self) -> int:
        return self.address

    def get_device(self) -> int:
        return self.place

    def is_neg(self) -> bool:
        return self.negative


Tensor.__module__ = "torch"


@pytest.fixture(autouse=True)
def torch_types(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(interop, "torch_types", lambda: (Tensor,))


def test_torch_tensors_are_told_apart_by_what_they_are(place: ParameterPlace):
    item = array_guard(Tensor(4096), standing_for(4096, (4, 8), np.dtype("f4"), None), binding(), 0, place)
    assert item.matches_and_patch(Tensor(4096))
    assert not place.block.moved
    assert item.matches_and_patch(Tensor(8192))
    assert place.block.moved
    assert word(place) == 8192
    assert not item.matches_and_patch(Tensor(8192, shape=(8, 4)))
    assert not item.matches_and_patch(Tensor(8192, strides=(1, 4)))
    assert not item.matches_and_patch(Tensor(8192, dtype="i32"))
    assert not item.matches_and_patch(Tensor(4096, device=1))
    assert not item.matches_and_patch(np.zeros((4, 8), np.float32))
    assert word(place) == 8192


def test_views_that_stand_for_negated_numbers(place: ParameterPlace):
    strides = (16, 2)
    view = standing_for(4096, (4, 8), np.dtype("f4"), (64, 8))
    item = array_guard(Tensor(4096, strides=strides), view, binding(), 0, place)
    assert item.matches_and_patch(Tensor(8192, strides=strides))
    assert not item.matches_and_patch(Tensor(4096, strides=strides, negative=True))
    dense = array_guard(Tensor(4096), standing_for(4096, (4, 8), np.dtype("f4"), None), binding(), 0, place)
    assert dense.matches_and_patch(Tensor(4096))
    assert not dense.matches_and_patch(Tensor(4096, negative=True))


def test_a_result_that_requires_a_gradient_is_looked_at_in_full(place: ParameterPlace, monkeypatch: pytest.MonkeyPatch):
    graded = Tensor(4096)
    graded.requires_grad = True
    view = standing_for(4096, (4, 8), np.dtype("f4"), None)
    read, written = (array_guard(graded, view, binding(mutable=m), 0, place) for m in (False, True))
    grad = [True]
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: grad[0]))
    assert read.matches_and_patch(graded)
    assert not written.matches_and_patch(graded)
    grad[0] = False
    assert written.matches_and_patch(graded)


def test_cupy_arrays(place: ParameterPlace):
    class Array(SimpleNamespace):
        pass

    Array.__module__ = "cupy"

    def make(address: int, shape: tuple[int, ...] = (4, 8), device: int = 0) -> Array:
        return Array(
            data=SimpleNamespace(ptr=address, device_id=device), shape=shape, strides=(32, 4), dtype=np.dtype("f4")
        )

    item = array_guard(make(4096), standing_for(4096, (4, 8), np.dtype("f4"), None), binding(), 0, place)
    assert item.matches_and_patch(make(8192))
    assert word(place) == 8192
    assert not item.matches_and_patch(make(8192, (2, 8)))
    assert not item.matches_and_patch(make(4096, device=1))


def test_arrays_that_never_change_are_known_by_identity(place: ParameterPlace):
    class Frozen:
        def __init__(self) -> None:
            self.deleted = False

        def is_deleted(self) -> bool:
            return self.deleted

    Frozen.__module__ = "jaxlib"
    value = Frozen()
    item = array_guard(value, standing_for(4096, (4, 8), np.dtype("f4"), None), binding(), 0, place)
    assert item.matches_and_patch(value)
    assert not item.matches_and_patch(Frozen())
    value.deleted = True
    assert not item.matches_and_patch(value)


def test_what_tells_arrays_apart_at_once():
    assert identity(Tensor(4096)) == (4096, (4, 8), (8, 1), "f32")
    assert identity(Tensor(4096)) != identity(Tensor(4096, strides=(1, 4)))
    assert identity(np.zeros(3)) is None
    assert identity(3) is None


def test_other_libraries_have_no_quick_way(place: ParameterPlace):
    assert array_guard(SimpleNamespace(), np.zeros((4, 8), np.float32), binding(), 0, place) is None


@pytest.mark.parametrize(
    ("first", "second", "meets"),
    [
        (4096, 4096, False),
        (4096, 4096 + 127, True),
        (4096, 4096 + 128, False),
        (4096, 4096 - 127, True),
        (4096, 3968, False),
    ],
)
def test_a_written_array_and_another_one_that_shares_bytes(place: ParameterPlace, first: int, second: int, meets: bool):
    def item(address: int, *, mutable: bool):
        view = standing_for(address, (4, 8), np.dtype("f4"), None)
        guard = array_guard(Tensor(address), view, binding(mutable=mutable), 0, place)
        assert guard is not None
        return guard

    mine = item(first, mutable=True)
    assert mine.meets(item(second, mutable=False)) is meets
    assert mine.meets(item(second, mutable=True)) is (meets or first == second)


def test_how_an_address_must_be_aligned(place: ParameterPlace):
    view = standing_for(4096, (4, 8), np.dtype("f4"), None)
    assert array_guard(Tensor(4096), view, binding(), 0, place).alignment == 4
    assert array_guard(Tensor(4096), view, binding(aligned=True), 0, place).alignment == 16

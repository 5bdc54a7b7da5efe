"""Windows that hang over an array's edges."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.base.dtypes import bf16, boolean, f32, u8
from tessera.runtime.interpret import memory
from tessera.runtime.interpret.memory import Memory, Traffic

windows = st.tuples(st.integers(1, 6), st.integers(-8, 8), st.integers(1, 7))


@given(st.lists(windows, min_size=1, max_size=3))
@settings(deadline=None)
def test_load_and_store_against_element_by_element(axes: list[tuple[int, int, int]]) -> None:
    shape, starts, extents = (tuple(axis[k] for axis in axes) for k in range(3))
    data = np.arange(1, np.prod(shape) + 1, dtype=np.int64).reshape(shape)
    box = memory.clip(shape, starts, extents)
    tile = memory.load(data, box)
    target, expected, count = np.zeros(shape, np.int64), np.zeros(shape, np.int64), 0
    flat: list[int] = []
    for offset in np.ndindex(extents):
        place = tuple(s + o for s, o in zip(starts, offset, strict=True))
        inside = all(0 <= p < n for p, n in zip(place, shape, strict=True))
        assert tile[offset] == (data[place] if inside else 0)
        if inside:
            expected[place] = data[place]
            count += 1
            flat.append(int(np.ravel_multi_index(place, shape)))
    memory.store(target, box, tile.ravel())
    assert np.array_equal(target, expected)
    assert box.elements == count
    assert box.whole == (count == np.prod(extents))
    assert memory.flat_box(shape, box).tolist() == flat
    if not box.whole:
        outside = memory.first_outside(shape, starts, extents)
        assert not all(0 <= p < n for p, n in zip(outside, shape, strict=True))
        assert all(s <= p < s + e for s, p, e in zip(starts, outside, extents, strict=True))


def test_inside_and_flat() -> None:
    rows, columns = np.array([0, 1, 2, -1]), np.array([0, 3, 1, 1])
    assert memory.inside((2, 3), (rows, columns)).tolist() == [True, False, False, False]
    assert memory.flat((2, 3), (np.array([1, 0]), np.array([2, 1]))).tolist() == [5, 1]


def test_shared_memory_does_not_start_at_zero() -> None:
    assert np.isnan(memory.fresh_shared("s", f32, (3, 2)).data).all()
    assert np.isnan(memory.fresh_shared("s", bf16, (3,)).data.astype(np.float32)).all()
    assert memory.fresh_shared("s", u8, (3,)).data.tolist() == [memory.POISON] * 3
    assert memory.fresh_shared("s", boolean, (2,)).data.all()


def test_traffic_counts_global_memory() -> None:
    traffic = Traffic()
    array, shared = Memory("x", np.zeros(4, np.int16)), Memory("s", np.zeros(4), shared=True)
    traffic.count(array, 3, written=False)
    traffic.count(array, 2, written=True)
    traffic.count(shared, 9, written=True)
    assert (traffic.reads, traffic.writes, traffic.bytes) == (3, 2, 10)

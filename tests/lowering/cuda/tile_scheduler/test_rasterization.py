"""The order of groups, computed with plain numbers: every function of `IndexBuilder` works on ints as well."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.mlir import plain_number
from tessera.core.artifact import LaunchRule
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.tile_scheduler.rasterization import is_banded, numbered, ordered, place


def frame(rows: int, columns: int, blocks: int = 1 << 20) -> Any:
    """A launch of rows x columns groups of 128 x 256 elements, by so many blocks at a time."""
    build = IndexBuilder.__new__(IndexBuilder)
    rule = LaunchRule("ranges", ranges=((rows * 128, 128), (columns * 256 - 5, 256)))
    return SimpleNamespace(
        build=build, rule=rule, groups=lambda: rows * columns, blocks=lambda: blocks,
        trips=lambda length, step: -(-length // step),
    )  # fmt: skip


BANDS = st.sampled_from([1, 3, 8, 12, 16, 64])


def numbers(rows: int, columns: int, schedule: TileSchedule, count: int) -> list[int]:
    """The groups in the order in which they are done."""
    launch = frame(rows, columns)
    return [plain_number(numbered(launch, place(launch, schedule, n))) for n in range(count)]


@given(st.integers(1, 40), st.integers(1, 12), BANDS)
def test_every_group_is_done_once(rows: int, columns: int, band: int):
    assert is_banded(frame(rows, columns), TileSchedule(raster_group=band))
    assert sorted(numbers(rows, columns, TileSchedule(raster_group=band), rows * columns)) == list(
        range(rows * columns)
    )


@given(st.integers(1, 40), st.integers(2, 12), BANDS)
def test_a_band_of_rows_is_done_column_by_column(rows: int, columns: int, band: int):
    height = min(band, rows)
    first = numbers(rows, columns, TileSchedule(raster_group=band), 2 * height)
    assert first[:height] == [row * columns for row in range(height)]
    assert first[height:] == [row * columns + 1 for row in range(height)]


@given(st.integers(1, 40), st.integers(1, 12), st.sampled_from([2, 4]), st.sampled_from([8, 12, 16]))
def test_neighbours_of_a_cluster_share_a_column(rows: int, columns: int, cluster: int, band: int):
    padded = -(-rows // cluster) * cluster
    found = numbers(rows, columns, TileSchedule(cluster=cluster, raster_group=band), padded * columns)
    assert set(found) == set(range(rows * columns))
    assert len(found) - len(set(found)) == (padded - rows) * columns  # the last row again
    for first in range(0, len(found), cluster):
        members = found[first : first + cluster]
        assert len({number % columns for number in members}) == 1
        assert all(below // columns - above // columns in (0, 1) for above, below in pairwise(members))


@given(st.integers(1, 9), st.integers(1, 9))
def test_large_groups_come_first(heads: int, blocks: int):
    launch = frame(heads, blocks)
    launch.rule = LaunchRule("ranges", ranges=((heads, 1), (blocks * 128, 128)))
    assert not is_banded(launch, TileSchedule(load_balance=1))
    numbers = [plain_number(ordered(launch, TileSchedule(load_balance=1), n)) for n in range(heads * blocks)]
    assert sorted(numbers) == list(range(heads * blocks))
    along = [number % blocks for number in numbers]
    assert along == sorted(along, reverse=True)
    assert [
        plain_number(ordered(launch, TileSchedule(load_balance=-1), n)) % blocks for n in range(heads * blocks)
    ] == sorted(along)


@given(st.integers(1, 9), st.integers(2, 40), st.integers(1, 60))
def test_no_block_has_the_larger_group_every_time(heads: int, count: int, blocks: int):
    """Group n of a head works for n: blocks take one after the other, and are then about as busy as each other."""
    launch = frame(heads, count, blocks)
    launch.rule = LaunchRule("ranges", ranges=((heads, 1), (count * 128, 128)))
    groups = [plain_number(ordered(launch, TileSchedule(load_balance=1), n)) for n in range(heads * count)]
    assert sorted(groups) == list(range(heads * count))
    work = [sum(number % count for number in groups[block::blocks]) for block in range(min(blocks, heads * count))]
    assert max(work) - min(work) <= count

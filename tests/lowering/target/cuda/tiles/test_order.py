"""The order of groups, computed with plain numbers: every function of `Build` works on ints as well."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tessera.core.artifact import LaunchRule
from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.tiles.order import ordered
from tessera.lowering.target.cuda.tiles.plan import Plan


def frame(rows: int, columns: int) -> Any:
    """A launch of rows x columns groups of 128 x 256 elements."""
    build = Build.__new__(Build)
    rule = LaunchRule("ranges", ranges=((rows * 128, 128), (columns * 256 - 5, 256)))
    return SimpleNamespace(build=build, rule=rule, symbols={}, groups=lambda: rows * columns)


@given(st.integers(1, 40), st.integers(1, 12))
def test_every_group_is_done_once(rows: int, columns: int):
    numbers = [ordered(frame(rows, columns), Plan(), n) for n in range(rows * columns)]
    assert sorted(numbers) == list(range(rows * columns))


@given(st.integers(1, 40), st.integers(2, 12))
def test_a_band_of_eight_rows_is_done_column_by_column(rows: int, columns: int):
    height = min(8, rows)
    first = [ordered(frame(rows, columns), Plan(), n) for n in range(2 * height)]
    assert first[:height] == [row * columns for row in range(height)]
    assert first[height:] == [row * columns + 1 for row in range(height)]


@given(st.integers(1, 40), st.integers(1, 12))
def test_neighbours_of_a_cluster_share_a_column(rows: int, columns: int):
    padded = rows + rows % 2
    numbers = [ordered(frame(rows, columns), Plan(cluster=2), n) for n in range(padded * columns)]
    assert set(numbers) == set(range(rows * columns))
    assert len(numbers) - len(set(numbers)) == (columns if rows % 2 else 0)  # the last row twice
    for one, other in zip(numbers[::2], numbers[1::2], strict=True):
        assert one % columns == other % columns
        assert other // columns - one // columns in (0, 1)


@given(st.integers(1, 9), st.integers(1, 9))
def test_large_groups_come_first(heads: int, blocks: int):
    launch = frame(heads, blocks)
    launch.rule = LaunchRule("ranges", ranges=((heads, 1), (blocks * 128, 128)))
    numbers = [ordered(launch, Plan(uneven=1), n) for n in range(heads * blocks)]
    assert sorted(numbers) == list(range(heads * blocks))
    along = [number % blocks for number in numbers]
    assert along == sorted(along, reverse=True)
    assert [n % blocks for n in (ordered(launch, Plan(uneven=-1), n) for n in range(heads * blocks))] == sorted(along)

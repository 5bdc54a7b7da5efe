"""Types with placements: printed, read back, and their bytes on a device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import ALL, bf16, f32
from tessera.core.errors.catalog import BadShardSpec
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import REDUCTIONS, Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Split

AXES = ("dp", "tp", "pp", "ep")


def test_how_they_are_printed():
    rows = ShardedType(bf16, (8192, 8192), Placement((Split(("tp",)), Split()), ("dp",)))
    assert str(rows) == "bf16[8192@tp, 8192]{sum: dp}"
    both = Placement((Split(("dp", "tp")), Split(("pp",), 1), Split(("ep",), 64)))
    assert str(ShardedType(f32, (16, 8, 256), both)) == "f32[16@dp*tp, 8@pp:cyclic, 256@ep:cyclic(64)]"
    assert str(ShardedType(f32, (), Placement((), ("dp", "tp"), "max"))) == "f32[]{max: dp, tp}"


@st.composite
def types(draw: st.DrawFn) -> ShardedType:
    axes = list(draw(st.permutations(AXES)))
    splits: list[Split] = []
    shape = draw(st.lists(st.integers(0, 10**7), max_size=4))
    for _ in shape:
        count = draw(st.integers(0, len(axes)))
        splits.append(Split(tuple(axes[:count]), draw(st.integers(0, 99)) if count else 0))
        del axes[:count]
    partial = tuple(axes[: draw(st.integers(0, len(axes)))])
    op = draw(st.sampled_from(REDUCTIONS)) if partial else "sum"
    return ShardedType(draw(st.sampled_from(ALL)), tuple(shape), Placement(tuple(splits), partial, op))


@given(types())
def test_what_is_printed_is_read_back(each: ShardedType):
    assert ShardedType.parse(str(each)) == each


def test_spaces_do_not_count():
    loose = ShardedType.parse(" bf16 [ 8192@tp ,8192 ] { sum : dp , pp } ")
    assert str(loose) == "bf16[8192@tp, 8192]{sum: dp, pp}"


@pytest.mark.parametrize(
    "text",
    ["", "bf16", "bf17[8]", "f32[8@]", "f32[8@tp*]", "f32[8]{sum}", "f32[8]{mean: dp}", "f32[8]{sum: }", "f32[a@tp]",
     "f32[8@tp:cyclic(0)]", "f32[8@tp:blocks]", "f32[8", "f32[8]{sum: dp,}"],
)  # fmt: skip
def test_other_texts_are_refused(text: str):
    with pytest.raises(BadShardSpec, match="is no type with a placement") as raised:
        ShardedType.parse(text)
    assert str(raised.value).splitlines()[-1] == (
        "  try: write bf16[8192@tp, 8192]{sum: dp}: several axes as dp*tp, other distributions as @tp:cyclic(64)"
    )


def test_bytes_are_those_of_the_largest_shard():
    mesh = Mesh.of(("dp", "tp"), range(18), (2, 9))
    assert ShardedType.parse("bf16[8192@tp, 8192]").bytes_on(mesh) == 911 * 8192 * 2
    assert ShardedType.parse("bf16[8192@tp, 8192@dp]").bytes_on(mesh) == 911 * 4096 * 2
    assert ShardedType.parse("f32[]{sum: dp}").bytes_on(mesh) == 4
    assert ShardedType.parse("f32[10@dp:cyclic(3)]").bytes_on(mesh) == 6 * 4

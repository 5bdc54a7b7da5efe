"""Shard specs as users write them, and what is refused, with the caret and the remedy."""

import pytest

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import BadShardSpec, UnevenShards
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.shard_spec import Along, ShardSpec, require_even
from tessera.core.placement.splits import Split

MESH = Mesh.of(("dp", "tp", "pp"), range(72), (4, 9, 2))


def test_the_specs_of_the_documents():
    columns = ShardSpec(partition=("col",), mesh_axes=("tp",))
    assert columns.placed((8192, 8192), MESH) == Placement((Split(), Split(("tp",))))
    both = ShardSpec(partition=("row", "col"), mesh_axes=("tp", "pp"))
    assert both.placed((1_000_000, 1_000_000), MESH) == Placement((Split(("tp",)), Split(("pp",))))
    assert Along(("dp", "tp")).placed((8, 128, 64), MESH) == Placement((Split(("dp",)), Split(("tp",)), Split()))


def test_numbers_several_axes_and_blocks():
    assert ShardSpec(1, "tp").placed((4, 18, 4), MESH) == Placement((Split(), Split(("tp",)), Split()))
    assert ShardSpec((-2,), (("dp", "pp"),)).placed((4, 16, 4), MESH).splits[1] == Split(("dp", "pp"))
    assert ShardSpec("row", ("dp", "pp")) == ShardSpec(("row",), (("dp", "pp"),))
    assert ShardSpec(("row", 0), ("dp", "pp")).placed((16,), MESH) == Placement((Split(("dp", "pp")),))
    assert ShardSpec("row", "dp", block=1).placed((16,), MESH) == Placement((Split(("dp",), 1),))
    assert Along((None, "tp"), block=2).placed((4, 180), MESH) == Placement((Split(), Split(("tp",), 2)))
    assert Along().placed((4,), MESH) == Placement.replicated(1)


def test_specs_are_values():
    assert ShardSpec(("row",), ("tp",)) == ShardSpec("row", "tp")
    assert len({ShardSpec("row", "tp"), ShardSpec("row", "tp"), ShardSpec("col", "tp")}) == 2


def test_extents_that_do_not_divide_are_refused_with_the_remedy():
    spec = ShardSpec(partition=("col",), mesh_axes=("tp",), uneven="refuse")
    assert spec.placed((10, 18), MESH) == Placement((Split(), Split(("tp",))))
    with pytest.raises(UnevenShards) as raised:
        spec.placed((8192, 8192), MESH)
    line = raised.value.span.line
    assert str(raised.value).splitlines() == [
        "TSR-E603 the mesh does not divide the extent: dimension 1 has 8,192 elements, and tp cuts it into 9",
        f"  --> {__file__}, line {line}, column 9",
        f"{line:>4} |         spec.placed((8192, 8192), MESH)",
        f"     |         {'^' * 31}",
        '  try: make it 8,199, or let the last shards be shorter: uneven="pad"',
    ]
    with pytest.raises(UnevenShards, match="dp\\*tp cuts it into 36"):
        Along((("dp", "tp"),), uneven="refuse").placed((8192,), MESH)
    with pytest.raises(UnevenShards, match="make it 48, or"):
        require_even((40,), Placement((Split(("dp",), 6),)), MESH)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ShardSpec(("row", "col"), ("tp",)), "2 dimensions are cut by 1 mesh axes"),
        (lambda: ShardSpec(("rows",), ("tp",)), "'rows' is no dimension"),
        (lambda: ShardSpec((True,), ("tp",)), "True is no dimension"),
        (lambda: ShardSpec(("row",), (3,)), "3 is no axis of a mesh"),
        (lambda: ShardSpec(("row",), ((),)), r"\(\) is no axis of a mesh"),
        (lambda: ShardSpec("row", "tp", block=(1, 2)), r"block=\(1, 2\) does not fit"),
        (lambda: ShardSpec("row", "tp", uneven="trim"), "uneven='trim' is no choice"),
        (lambda: ShardSpec(2, "tp").placed((4, 4), MESH), r"a tensor of shape \(4, 4\) has no dimension 2"),
        (lambda: ShardSpec(("row", "col"), ("tp", "tp")).placed((4, 4), MESH), "mesh axis 'tp' is used twice"),
        (lambda: Along(("dp", "tp")).placed((4,), MESH), "2 dimensions are cut, and the domain has 1"),
        (lambda: Along(("dp",), block=-1), "block=-1 is no number of elements"),
        (lambda: Along(("dp",), uneven=""), "uneven='' is no choice"),
    ],
)  # fmt: skip
def test_what_is_no_spec(make: object, message: str):
    assert callable(make)
    with pytest.raises(BadShardSpec, match=message) as raised:
        make()
    assert isinstance(raised.value, TesseraError)
    assert raised.value.hint
    assert raised.value.span.file == __file__


@pytest.mark.parametrize("partition", [("row", "col"), (0, -1), ("col", 0)])
def test_both_ends_of_a_vector_are_one_dimension(partition: tuple[str | int, ...]):
    with pytest.raises(BadShardSpec, match="are one dimension of a tensor of shape") as caught:
        ShardSpec(partition, ("dp", "pp")).placed((16,), MESH)
    assert "partition=0" in str(caught.value)

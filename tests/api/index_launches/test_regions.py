"""Accesses: the placement that points need, the axes that tell points apart, and conflicts."""

import pytest

from tessera import dist
from tessera.api.index_launches.point_signature import Extent, PointParameter
from tessera.api.index_launches.regions import access, point_axes, require_disjoint
from tessera.core.errors.catalog import BadIndexLaunch, RegionConflict
from tessera.core.placement.sharded_type import ShardedType


def mesh() -> dist.Mesh:
    return dist.Mesh(("dp", "tp"), range(6), (2, 3))


def tensor(text: str, place: dist.Mesh | None = None) -> dist.Tensor:
    return dist.Tensor(ShardedType.parse(text), place or mesh())


def cut(privilege: str, *axes: tuple[str, ...]) -> PointParameter:
    return PointParameter("A", privilege, tuple(Extent("n", each) for each in axes))


@pytest.mark.parametrize(
    ("given", "extents", "needed"),
    [
        ("f32[6@tp, 4]", (("tp",), ()), "f32[6@tp, 4]"),
        ("f32[6@tp, 4]", ((), ()), "f32[6, 4]"),
        ("f32[6@tp, 4]", ((), ("tp",)), "f32[6, 4@tp]"),
        ("f32[6, 4]", (("tp",), ()), "f32[6@tp, 4]"),
        ("f32[6@dp, 4]", (("tp",), ()), "f32[6@dp*tp, 4]"),
        ("f32[6@tp*dp, 4]", (("tp",), ()), "f32[6@tp*dp, 4]"),
        ("f32[6@tp:cyclic, 4]{sum: dp}", (("tp",), ()), "f32[6@tp:cyclic, 4]"),
    ],
)
def test_the_placement_that_points_need(given: str, extents: tuple[tuple[str, ...], ...], needed: str):
    found = access(cut("read", *extents), tensor(given), ("tp",), ())
    assert found.needed == ShardedType.parse(needed).placement
    plain = access(PointParameter("A", "read"), tensor(given), ("tp",), ())
    assert plain.needed.splits == tensor(given).placement.splits


def test_what_is_summed_over_is_seen_as_a_whole():
    found = access(cut("write", ("tp",), ()), tensor("f32[6@tp, 4]"), ("tp",), ("tp",))
    assert (found.needed, found.partial) == (ShardedType.parse("f32[6, 4]").placement, ("tp",))
    assert found.label == "A, f32[6@tp, 4]"


def test_axes_that_tell_points_apart():
    place = mesh()
    rows = access(PointParameter("A", "read"), tensor("f32[6@dp]", place), ("tp",), ())
    assert point_axes([rows], ("tp",), place) == ("dp", "tp")
    assert point_axes([], ("tp",), place) == ("tp",)


def test_conflicts():
    place = mesh()

    def check(*accesses: tuple[str, dist.Tensor]) -> None:
        found = [access(PointParameter(f"A{n}", kind), x, ("tp",), ()) for n, (kind, x) in enumerate(accesses)]
        require_disjoint(found, point_axes(found, ("tp",), place), place)

    rows, whole = tensor("f32[6@tp]", place), tensor("f32[6]", place)
    check(("read", whole), ("write", rows), ("reduce_sum", tensor("f32[6]", place)))
    check(("read", whole), ("read", whole))
    check(("reduce_sum", whole), ("reduce_sum", whole))
    check(("write", rows), ("read", rows))
    for kind in ("write", "update"):
        with pytest.raises(RegionConflict, match="points tp=0 and tp=1 both write all that they see of A0"):
            check((kind, whole))
    with pytest.raises(RegionConflict, match="each point writes it twice"):
        check(("write", rows), ("write", rows))
    with pytest.raises(RegionConflict, match=r"A1, f32.*, and A0 are one tensor: a point reads through A0"):
        check(("read", whole), ("reduce_sum", whole))
    with pytest.raises(RegionConflict, match="each point writes it twice"):
        check(("write", rows), ("reduce_sum", rows))


def test_ranks_and_axes_that_do_not_fit():
    with pytest.raises(BadIndexLaunch, match="A has 1 dimensions, and f32"):
        access(cut("read", ()), tensor("f32[6, 4]"), ("tp",), ())
    with pytest.raises(BadIndexLaunch, match="A is cut by dp, and the launch is over tp"):
        access(cut("read", ("dp",)), tensor("f32[6]"), ("tp",), ())

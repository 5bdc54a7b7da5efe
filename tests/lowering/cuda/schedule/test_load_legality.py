"""Which loads go to shared memory as they are."""

import numpy as np
import pytest

from lowering.cuda.cases import plan_of
from lowering.cuda.compare import agree
from lowering.cuda.hopper import code, convolution, gradients, places
from support.builder import Builder
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import bf16, f32, i64
from tessera.core.program.program import Program
from tessera.core.program.types import Scalar


@pytest.mark.parametrize(("length", "along"), [(1024, 3), (1026, 1)], ids=["aligned", "rows of 4104 bytes"])
def test_vectors_of_aligned_arrays_come_with_a_factor(length: int, along: int):
    """A head's 1026 f32 do not begin at multiples of 16 bytes: lanes read them from the array."""
    plan, _ = plan_of(gradients(length=length))
    assert plan is not None
    assert max(len(ring.loads) for ring in plan.rings) == along


def product(bound: str) -> Program:
    """C = A B, as deep as an array says: its largest element, or one that a group counts up."""
    b = Builder("product")
    a, w = b.array("A", bf16, "M", "K", aligned=True), b.array("B", bf16, "K", "N", aligned=True)
    c = b.array("C", f32, "M", "N", aligned=True, mutable=True)
    depths = b.array("D", i64, "P", mutable=bound == "counted")
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m:
        if bound == "largest":
            depth = b.op("reduce", (b.load(depths, [zero], [32]),), Scalar(i64), kind="max", axis=None)
        else:
            depth = b.read(depths, zero)
        if bound == "counted":
            b.write(depths, b.value("add", depth, b.const(1)), zero)
        start = b.full(b.const(0.0, f32), 128, 64)
        with b.loop(zero, depth, b.const(64), [start], names=("k", "acc")) as k:
            left, right = b.load(a, [m.index, k.index], [128, 64]), b.load(w, [k.index, zero], [64, 64])
            k.yields = (b.dot(left, right, k.carried[0]),)
        b.store(c, k.results[0], [m.index, zero], [128, 64])
    return b.program()


@pytest.mark.parametrize(("bound", "ahead"), [("read", True), ("largest", False), ("counted", False)])
def test_a_warp_copies_alone_where_it_knows_how_often(bound: str, ahead: bool):
    """Not where a tile says it, which that warp has none of, nor an array that the others are changing."""
    plan, _ = plan_of(product(bound))
    assert plan is not None
    assert bool(plan.rings) == ahead
    assert "wgmma.mma_async" in code(product(bound))


@pytest.mark.parametrize("stride", [1, 2])
def test_a_box_of_pixels_is_the_rows_of_a_product(stride: int):
    """The copy engine brings it, zeros beside the image included: no lane reads the images, nor compares an index."""
    program = convolution((32, 16, 16, 64), 64, stride=stride)
    plan, _ = plan_of(program)
    assert plan is not None
    (ring,) = plan.rings
    assert len(ring.loads) == 2
    assert ring.running is not None  # through all taps: one loop goes over these and the channels
    text = code(program)
    ranks = [4, 4] if stride == 1 else [4, 5]
    assert [int(text[at - 1]) for at in places(text, "d.shared::cluster.global")] == ranks[::-1]
    assert not places(text, "ld.global")
    assert places(text, "wgmma.mma_async")


def test_lanes_copy_boxes_of_pixels_where_there_is_no_copy_engine():
    text = ptx_of(compile_ptx(convolution(), "sm_80"))
    assert places(text, r"cp\.async\.cg")
    assert not places(text, "ld.global.v")


def test_boxes_whose_pixels_are_copied_have_their_zeros():
    """Against the interpreter: three images of 5 x 7 pixels, whose boxes stick out along every axis."""
    program = convolution((3, 5, 7, 16), 16, {0: 4, 1: 2, 2: 2, 3: 16, 6: 16}, np.float16)
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((3, 5, 7, 16), (16, 3, 3, 16)))
    given = {"x": x, "w": w, "y": np.full(x.shape, np.nan, np.float16)}
    agree(program, [given[each.name[0]] for each in program.parameters], arch="sm_80")

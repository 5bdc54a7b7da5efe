"""Which tiles the copy engine stores, and which of them warp groups store apart."""

from types import SimpleNamespace

import pytest

from tessera.core.dtypes import bf16
from tessera.core.layouts import Layout, accumulator
from tessera.core.mlir import ir
from tessera.core.program.types import Array
from tessera.core.tile.dialect import shared_context
from tessera.lowering.target.cuda.tiles.stages import Panels
from tessera.lowering.target.cuda.tiles.stores import copied_panels, own_rows


@pytest.mark.parametrize(
    ("shape", "bits", "apart"),
    [
        ((128, 256), 3, True),
        ((256, 128), 4, True),
        ((64, 256), 3, False),  # the warp groups have columns of their own
        ((256, 128), 3, False),  # each has two blocks of 64 rows, which do not follow each other
        ((128, 256), 2, False),  # there is only one
    ],
    ids=str,
)
def test_warp_groups_that_have_rows_of_their_own(shape: tuple[int, int], bits: int, apart: bool):
    assert own_rows(accumulator(shape, bits), 1 << bits) == apart


def panels(layout: Layout, rank: int = 2, dropped: str = "", *, aligned: bool = True) -> Panels | None:
    """What becomes of a store of bf16 to an array of this rank."""
    with shared_context():
        attribute = ir.Attribute.parse(f"array<i64{': ' if dropped else ''}{dropped}>")
        kind = ir.Type.parse(f"tensor<{layout.shape[0]}x{layout.shape[1]}xbf16>")
        op = SimpleNamespace(attributes={"dropped": attribute}, operands=[None, SimpleNamespace(type=kind)])
        return copied_panels(op, layout, Array(bf16, tuple("mnk"[:rank]), aligned=aligned))


def test_column_blocks_are_128_bytes_wide():
    assert panels(accumulator((128, 256), 3)) == Panels(128, 64, 2)
    assert panels(accumulator((64, 64), 2), 3, "0") == Panels(64, 64, 2)


def test_what_the_copy_engine_does_not_store():
    sums = accumulator((128, 256), 3)
    assert panels(sums, aligned=False) is None
    assert panels(sums, 3, "2") is None  # the columns are not contiguous
    assert panels(accumulator((256, 128), 3)) is None  # too many rows
    assert panels(accumulator((128, 32), 2)) is None  # too few columns

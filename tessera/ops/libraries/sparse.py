"""Sparse matrices in CSR form on arrays of NumPy or CuPy: products by a kernel, and what their derivatives need."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from tessera.core.program.program import Attribute
from tessera.ops.libraries.arrays import Numbers, library_for
from tessera.ops.recipes.launch_recipe import machine_of, variant
from tessera.ops.tiles.sparse import COLUMNS, DOUBLE, INTEGER, WARPS, csr_product
from tessera.runtime.memory.operands import operand

Options: TypeAlias = Mapping[str, Attribute]
_KINDS: Final = {"f32": 0, "f64": DOUBLE}


def multiply(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Fill the last array with the product of the others: values, columns, starts, dense.

    options: kind: what is summed in: f32, f64 or i64
    """
    *given, made = arrays
    if made.size:
        kind = _KINDS.get(str(options["kind"]), INTEGER)
        chosen = variant(csr_product, machine_of(operand(made, "out")), {}, {}, {}, KIND=kind)
        rows, n = made.shape
        chosen[-(-rows * -(-n // COLUMNS) // WARPS), 32 * WARPS](*given, made)
    return [made]


def rows_of_elements(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Return for each element the row that it lies in; arrays: columns, starts.  -1 lies before the first row."""
    del options
    columns, starts = arrays
    library = library_for(columns)
    places = library.arange(columns.shape[0])
    return [library.searchsorted(starts, places, side="right") - 1]


def transposed(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Return the transposed matrix: its elements' places in this one, their columns, and where its rows begin.

    Elements of one row keep their order.  options: columns: of this one
    """
    (rows,) = rows_of_elements(arrays, {})
    columns, _ = arrays
    library = library_for(columns)
    order = library.argsort(columns, kind="stable").astype("int64")
    starts = library.searchsorted(columns[order], library.arange(int(str(options["columns"])) + 1))
    return [order, rows[order].astype("int64"), starts.astype("int64")]

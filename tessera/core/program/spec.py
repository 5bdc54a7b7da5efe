"""The operations a kernel is made of: one table, read by the verifier, the printer and every target.

Types: S scalar, T tile, M memory (Array or Shared), V scalar or tile, B boolean scalar or tile.
"Same" means all operands and the result share one type.  Index operands are i64 scalars.

Semantics that hold everywhere
* A value that depends on no lane id is *uniform*; a statement all of whose operands are uniform runs once a group.
* `read` outside the array gives 0, `write` outside does nothing.  Shared memory accesses outside the buffer follow the
  same rule (and the sanitizer reports them), and `copy` writes 0 for what is outside.
* A tile knows which of its elements exist.  Those that a `load` takes from outside are *absent*.  What is known has
  three parts: whether the tile exists at all (it does not where an axis that `load` drops is outside), which indices
  exist along each axis, and for some tiles a *mask*; an element exists where all of them say so.
  - `gather`: along the axis of its index tile, where the index exists and lies inside the memory.
  - Element-wise operations, casts: part by part, what exists in every operand.  `full`, `arange`: everything exists.
  - `broadcast` repeats, `transpose` permutes.  `reshape` keeps what is known of an axis that it keeps; of axes that it
    makes one, the products; of axes that it splits, a mask; of an axis of extent 1 that it drops, the tile.
  - `select`: where the condition and the chosen operand exist.  By a tile: along each axis, what exists in either
    operand, and a mask for the rest.
  - `reduce` and `softmax` leave out what is absent: it counts as 0, as the least or as the greatest value.  A `reduce`
    forgets what is known along its axis, and the mask: the sum of nothing is 0, and exists.
  - `dot` takes what is absent as 0.  The rows are those of the first factor, the columns those of the second.  With
    `acc` it adds what exists: the result exists where acc does.
  - `store` leaves out what is absent.  `valid` tells, as a tile of which everything exists, and `fill` replaces.
* `copy` is asynchronous: its bytes are promised in `dst` only after the next `barrier`.  A `barrier` waits for the
  group's outstanding copies and for every lane of the group.
* Floating `add`, `mul` ... round once each, to nearest even, in the operands' dtype (16-bit floats compute in f32 and
  round back); nothing is contracted.  `fma` rounds once.
* `floordiv` and `mod` follow Python's signs.  Integer division by zero gives 0 (so that masked lanes never trap).
* `mulhi` is the upper half of the product of two integers, which has twice their width.
* `min`/`max` follow NumPy's `minimum`/`maximum` (NaN wins); -0 is less than +0.  Shifts by >= the width give 0 (or
  the sign).
* Floats of 8 bits are only held, moved, cast and multiplied by `dot`; the frontend computes with them in f32.
* `reduce` sums with the association of `core/base/reductions.py`; f16/bf16 accumulate in f32 and round once at the end.
* `tile.cumsum`, `tile.cummax` and `tile.cummin` have no row: they are reductions of blocks, with the association of
  running sums of `core/base/reductions.py`; what is absent of the operand is left out, and absent of the result.
* Stores to places that a tile of indices tells, and `tile.scatter_add`, have no row: they are a `for` in the order of
  the indices, whose trips load, change and store one row (`frontend/base/scatter.py`).
* `tile.argmax` and `tile.argmin` have no row: they are the `min` of the positions whose element equals the `max` (or
  `min`) or is NaN, positions in i32, then i64; where no element exists they are 0.
* `dot` accumulates over K in order with one fused multiply-add a step, in f32 (f64 for f64, i32 for integers), from
  `acc` where there is one.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One row.

    operands: a short signature (see the module's docstring; `*` any number, `?` optional)
    attributes: names, each with what it may hold
    result: the result's type in words
    effect: "" (pure), "read", "write", "alloc", "sync" or "control"
    """

    operands: str
    result: str
    attributes: tuple[str, ...] = ()
    effect: str = ""


BINARY: Final = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "pow", "and", "or", "xor", "shl", "shr",
                "mulhi")  # fmt: skip
UNARY: Final = ("neg", "not", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf",
                "floor", "ceil")  # fmt: skip
IN_RANGE: Final = "in_range"
"""The predicate of a `div` or `sqrt` of f32 whose operands and result are known to lie between 2^-100 and 2^100, or are
zeros above the line: targets need not look for anything else.  What is computed is the same."""
PREDICATES: Final = ("lt", "le", "gt", "ge", "eq", "ne")
REDUCTIONS: Final = ("sum", "max", "min")
ID_KINDS: Final = {
    "lane": "index of the lane within its group",
    "thread": "index of the lane within the launch",
    "group": "index of the group within the grid",
    "group_lanes": "lanes in a group",
    "grid_groups": "groups in the grid",
    "lane_in_warp": "index of the lane within its warp of 32",
    "warp": "index of the warp within its group",
}

SPEC: Final[dict[str, OpSpec]] = {
    "const": OpSpec("", "S", ("value: a Python number or bool of the result's dtype",)),
    "id": OpSpec("", "S i64", ("of: a key of ID_KINDS", "axis: 0..2, or None for the linear one")),
    "dim": OpSpec("", "S i64", ("symbol: a name in Program.symbols",)),
    **{name: OpSpec("V V same", "V same") for name in BINARY},
    **{name: OpSpec("V", "V same") for name in UNARY},
    "fma": OpSpec("V V V same", "V same: a * b + c rounded once"),
    "cmp": OpSpec("V V same", "B of that shape", ("predicate: one of PREDICATES",)),
    "select": OpSpec("B V V", "V same; with a scalar condition also Shared buffers of one type"),
    "cast": OpSpec("V", "V of another dtype, same shape: to nearest even; float to int truncates and saturates"),
    "read": OpSpec("M index*", "S", ("cache: '' or a hint",), "read"),
    "write": OpSpec("M S index*", "", ("cache: '' or a hint",), "write"),
    # One start index an axis of the memory.  `extents` has one number an axis; axes in `dropped` have extent 1
    # and do not appear in the tile.  tile.shape == extents without the dropped axes.
    "load": OpSpec("M index*", "T", ("extents", "dropped", "cache"), "read"),
    # As `load`, but one start is a tile of i64 of rank 1, whose axis has its extent: the result has there, for each
    # of its elements, what the memory has at that index.  An index outside the axis, or absent, makes absent elements.
    "gather": OpSpec("M (index or one T i64)*", "T", ("extents", "dropped", "cache"), "read"),
    "store": OpSpec("M T index*", "", ("extents", "dropped", "cache"), "write"),
    "alloc": OpSpec("", "Shared", (), "alloc"),
    "valid": OpSpec("T", "T of bool: which elements exist"),
    "fill": OpSpec("T S", "T: the second operand where the first does not exist"),
    "copy": OpSpec("Shared Array index*", "", ("extents", "dropped"), "write"),
    "barrier": OpSpec("", "", (), "sync"),
    "group_sync": OpSpec("", "", ("size: lanes in the cooperative group, aligned",), "sync"),
    "shuffle": OpSpec("S S(i64)", "S same as the first",
                      ("mode: down, up, xor, idx", "width: lanes that exchange, a power of two <= 32"), "sync"),
    "full": OpSpec("S", "T of that scalar"),
    "arange": OpSpec("S i64 (start)", "T i64 of rank 1"),
    "broadcast": OpSpec("T", "T of the same rank; extents of 1 are repeated"),
    "reshape": OpSpec("T", "T with the same number of elements, row-major order"),
    "transpose": OpSpec("T", "T", ("permutation: result axis i is operand axis permutation[i]",)),
    "reduce": OpSpec("T", "T without `axis`, or S when rank 1 is reduced or axis is None",
                     ("kind: one of REDUCTIONS", "axis: int, or None for all in row-major order")),
    "softmax": OpSpec("T float", "T same: e * (1 / sum(e)), e = exp(x - max)", ("axis",)),
    "dot": OpSpec("T[M,K] T[K,N] T[M,N]?", "T[M,N]",
                  ("exact: bool", "compute: absent, or a key of COMPUTE_TYPES that the factors are rounded to first")),
    # Control.  `for`: lower, upper, step, then initial values; the block takes the index and the carried values and
    # yields the next ones.  `kind` is "range" (in order) or "tile" (may be spread over groups when independent).
    "for": OpSpec("S S S any*", "one a carried value", ("kind", "prefetch: int"), "control"),
    "if": OpSpec("B(scalar)", "one a yielded value", (), "control"),
    # `while`: regions (condition, body); condition's block yields a bool followed by the carried values.
    "while": OpSpec("any*", "one a carried value", (), "control"),
    "yield": OpSpec("any*", "", (), "control"),
}  # fmt: skip

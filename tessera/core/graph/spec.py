"""The primitives of graphs: one table, read by the verifier, the printer and everything that works on graphs.

Semantics that hold everywhere
* A value is a whole tensor with a dtype.  Arithmetic is done in f32, f64, integers and bool; shorter floats are held,
  moved, converted and multiplied by `contract`.  So every rounding is a node: a `map` whose body converts.
* `map` works element by element.  Its operands' axes are axes of the result (`axes`), in any order: a transposition
  costs nothing, and an operand that lacks an axis is repeated along it.  A body has the meaning of a Program's
  operations.
* `contract` is a sum of products over labels that the result lacks: `sum_k a[..k..] b[..k..]`, accumulated in order
  with fused multiply-adds in the result's dtype (f32 for operands of at most 32 bits, f64, i32), labels in the order
  in which the first operand has them.
* `reduce` removes axes.  A sum along one axis has the association of `core/base/reductions.py`; of several axes, those
  are one axis in row-major order.
* `view` reads an element elsewhere: an `IndexMap`; outside of the operand it is 0.
* `call` runs a routine as a whole: nothing is fused into it, but for one that is defined by a graph, which takes the
  place of the call once derivatives are made.
* `loop`, `while` and `branch` hold graphs, which the host runs: kernels are those of the bodies, and nothing is fused
  with what is outside.  Bodies read nothing but their inputs.  See `bodies.py`.
* `collective` joins what the devices of a mesh have, along some of its axes; it is in graphs of one device's part.
* Nodes are pure.  Randomness is a function of a key and an element's index; state and collectives are values.
"""

from dataclasses import dataclass
from typing import Final

_SETTLED: Final = "settled: where a mesh cuts the graph, a bool per body, whether its kernels compute weights again"


@dataclass(frozen=True, slots=True)
class PrimitiveSpec:
    """One row.

    operands: a short signature (`*` any number, `?` optional); result: the result's type in words
    attributes: names, each with what it may hold; body: what the node's body is
    linear: the operands in which it is linear, as numbers; `all`, or "" for none
    """

    operands: str
    result: str
    attributes: tuple[str, ...] = ()
    body: str = ""
    linear: str = ""


REDUCTIONS: Final = ("sum", "max", "min")
CHOOSE: Final = "choose"
"""Of collectives: one device has the element, the others have zeros, and the bits of all are combined."""

COLLECTIVES: Final[dict[str, tuple[str, ...]]] = {
    "all_reduce": (), "reduce_scatter": ("cut",), "all_gather": ("join",), "all_to_all": ("join", "cut"),
    "slice": ("cut",),
}  # fmt: skip
"""The kinds of collectives, with which attributes each has.  A slice takes a device's own part, and moves nothing."""

PRIMITIVES: Final[dict[str, PrimitiveSpec]] = {
    "map": PrimitiveSpec("T*", "T; without operands a number everywhere",
                         ("axes: one tuple an operand, the result's axis of each of its axes",),
                         "an expression of the operands' elements"),
    "contract": PrimitiveSpec(
        "T T", "T of f32, f64 or i32",
        ("labels: one tuple an operand, numbers; equal numbers are one axis", "result: the labels of the result",
         "exact: bool, whether tensor cores are out of the question",
         "tile_shape: (BM, BN, BK) that the user wishes, or ()",
         "compute: '' or a key of COMPUTE_TYPES that operands are rounded to first", "isolated: see `isolated`"),
        linear="all"),
    "reduce": PrimitiveSpec("T", "T without `axes`",
                            ("axes: which are removed, rising", "kind: one of REDUCTIONS", "isolated: see `isolated`"),
                            linear="where kind is sum"),
    "view": PrimitiveSpec("T", "T of the same dtype", (), "an index map", linear="all"),
    "concat": PrimitiveSpec("T*", "T", ("axis",), linear="all"),
    "gather": PrimitiveSpec("T T(integers)", "T: the first one's `axis` replaced by the axes of the second",
                            ("axis",), linear="0"),
    "scatter_add": PrimitiveSpec("T(integers) T", "T: 0, and at each index the sum, in index order, of the second's",
                                 ("axis", "extent: of the result along it"), linear="1"),
    "iota": PrimitiveSpec("", "T of i64 of rank 1: 0, 1, 2, ..."),
    "scan": PrimitiveSpec("T", "T same", ("axis", "kind: sum"), linear="0"),
    "random": PrimitiveSpec("T u32[2]", "T of u32: bits of Philox 4x32-10, see `core/base/philox.py`",
                            ("shape", "stream: which of independent sequences")),
    "call": PrimitiveSpec("T*", "T*", ("options of the routine",), "a routine: a function of the host or of a library, "
                          "or a graph with an adjoint of its own", linear="by its adjoint"),
    "collective": PrimitiveSpec(
        "T", "T: one device's part, as `kind` says",
        ("kind: one of COLLECTIVES", "axes: of the mesh, the first named one outermost", "parts: devices along them",
         "reduction: of all_reduce and reduce_scatter, one of REDUCTIONS, CHOOSE, or ''",
         "join: the axis that is joined", "cut: the axis that is cut"),
        linear="where reduction is not max or min"),
    "state_read": PrimitiveSpec("version", "T", ("object",)),
    "state_write": PrimitiveSpec("version T", "version", ("object",)),
    "loop": PrimitiveSpec(
        "T*", "T*: the carries behind the last trip, then the stacked outputs",
        ("trips: at least 1", "constants: how many of the first operands are", "carried: how many operands behind them",
         "reverse: bool, whether the last slice comes first",
         "recompute: bool, whether the adjoint computes each trip again", _SETTLED),
        "the graph of one trip: constants, carries and one slice of each further operand in, carries and slices out",
        linear="by rule"),
    "while": PrimitiveSpec(
        "T*", "T*: the carries where the condition does not hold any more", ("constants", "carried", _SETTLED),
        "two graphs of constants and carries: the condition, one bool, and the carries of the next trip"),
    "branch": PrimitiveSpec(
        "bool T*", "T*", (_SETTLED,),
        "two graphs of the operands behind the first: where it holds, and where it does not", linear="by rule"),
}  # fmt: skip

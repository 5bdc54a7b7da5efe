"""The reference of the language: each operation's signature, one line, its parameters, and an example.

The one source of what `tile.softmax?`, Shift+Tab and completion say.  Each example is the body of a small kernel whose
head the operation's kind tells; the tests compile all of them.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.syntax_trees import parse_expression

_TILES: Final = "@kernel\ndef example(x: f32[rows, cols], y: mut f32[rows, cols]):"
_LANES: Final = "@kernel(tile=(128,))\ndef example(x: f32[n], y: mut f32[n]):"
_PRODUCTS: Final = "@kernel\ndef example(A: f16[m, k], B: f16[k, n], C: mut f32[m, n]):"
_ROWS: Final = "for r in tile.range(rows):"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, as a user reads of it.

    spelling: "tile.softmax"; parameters: "x, axis=-1"; summary: one line, as in a list
    about: what each parameter is; head, body: of the example, a kernel
    """

    spelling: str
    parameters: str
    summary: str
    head: str
    body: str
    about: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def call(self) -> str:
        """How it is written: "tile.softmax(x, axis=-1)"."""
        return f"{self.spelling}({self.parameters})"

    @property
    def example(self) -> str:
        """A whole kernel that uses it."""
        return f"{self.head}\n" + "\n".join(f"    {line}" for line in self.body.split("\n")) + "\n"

    @property
    def text(self) -> str:
        """Everything there is to say, under its signature."""
        about = "".join(f"\n{name}: {said}" for name, said in self.about.items())
        indented = "\n".join(f"    {line}" for line in self.example.splitlines())
        return f"{self.summary[0].upper()}{self.summary[1:]}.\n{about}\n\nExample:\n\n{indented}".replace(
            "\n\n\n", "\n\n"
        )

    @property
    def signature(self) -> inspect.Signature:
        """The parameters, as Python's tools show them."""
        return inspect.Signature(list(_parameters(self.parameters)))

    @property
    def keywords(self) -> tuple[str, ...]:
        """Names that can be given by keyword."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return tuple(p.name for p in self.signature.parameters.values() if p.kind in kinds)


class _Written(str):
    """A default value as it is written, such as `f32`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _parameters(text: str) -> Iterator[inspect.Parameter]:
    written = parse_expression(f"lambda {text}: 0")
    assert isinstance(written, ast.Lambda)
    arguments = written.args
    first = len(arguments.args) - len(arguments.defaults)
    for at, one in enumerate(arguments.args):
        default = _Written(ast.unparse(arguments.defaults[at - first])) if at >= first else inspect.Parameter.empty
        yield inspect.Parameter(one.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
    if arguments.vararg is not None:
        yield inspect.Parameter(arguments.vararg.arg, inspect.Parameter.VAR_POSITIONAL)
    for one, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        default = inspect.Parameter.empty if given is None else _Written(ast.unparse(given))
        yield inspect.Parameter(one.arg, inspect.Parameter.KEYWORD_ONLY, default=default)


def _rows(spelling: str, parameters: str, summary: str, value: str, /, **about: str) -> Operation:
    """An operation on the rows of a tile kernel, or on 64 of their elements, which makes `value`."""
    place = "y[r, 0:64]" if "64" in value else "y[r, :]"
    return Operation(spelling, parameters, summary, _TILES, f"{_ROWS}\n    {place} = {value}", about)


def _lanes(spelling: str, parameters: str, summary: str, /, *body: str, **about: str) -> Operation:
    return Operation(spelling, parameters, summary, _LANES, "\n".join(body), about)


_AXIS: Final = "axis of the grid or group, in the order of the arrays' axes; left out, all of them"
_KIND: Final = "dtype of the result, f32 where nothing else tells"
_REDUCED: Final = {
    "axis": "the axis that goes; None: all of them, which gives a number",
    "keepdims": "keep the axis, with an extent of 1",
}
_COPIES: Final = "where the bytes are kept on a GPU on their way: '' (everywhere) or what the target has"
_HALF: Final = "if i < n:\n    y[i] = 2.0 * x[i]"


def _shuffle(name: str, summary: str, other: str) -> Operation:
    return _lanes(
        f"tile.{name}", "value, amount, width=32", summary, "i = launch.thread_id()", "v = 0.0", "if i < n:",
        "    v = x[i]", f"v += tile.{name}(v, 1)", "if i < n:", "    y[i] = v",
        value="what this lane gives", amount=other, width="lanes that exchange: a power of two up to 32",
    )  # fmt: skip


def _element_wise(name: str, summary: str) -> Operation:
    return _rows(f"tile.{name}", "x", summary, f"tile.{name}(x[r, :])", x="a tile or a number")


_LIST: Final = (
    # -- who and where
    _lanes("tile.linear_id", "axis=None", "index of the lane within its group", "i = tile.linear_id()", _HALF,
           axis=_AXIS),
    _lanes("tile.lane_id", "", "index of the lane within its warp of 32", "i = launch.thread_id()", "if i < n:",
           "    y[i] = x[i] * tile.lane_id()"),
    _lanes("tile.warp_id", "", "index of the warp within its group", "i = launch.thread_id()", "if i < n:",
           "    y[i] = x[i] * tile.warp_id()"),
    _lanes("tile.group_id", "axis=None", "index of the group along an axis of the grid",
           "i = tile.group_id(0) * 128 + tile.linear_id()", _HALF, axis=_AXIS),
    _lanes("launch.thread_id", "axis=None", "index of the lane within the launch", "i = launch.thread_id()", _HALF,
           axis=_AXIS),
    _lanes("group_linear_id", "", "index of the group within the grid",
           "i = group_linear_id() * group_tile_count() + tile.linear_id()", _HALF),
    _lanes("group_tile_count", "", "number of lanes in a group",
           "i = group_linear_id() * group_tile_count() + tile.linear_id()", _HALF),
    _lanes("grid_group_count", "axis=None", "number of groups in the grid", "i = launch.thread_id()", "if i < n:",
           "    y[i] = x[i] / grid_group_count()", axis=_AXIS),
    # -- memory
    _rows("tile.load", "array, index=None, cache='', other=None", "read an element, a region or a whole array",
          "2.0 * tile.load(x[r, :])", array="an array, or a region of one such as x[r, 0:64]",
          index="index of one element, in kernels of lanes", cache=_COPIES,
          other="a number in place of what lies outside"),
    Operation("tile.store", "array, index=None, value=None, cache=''", "write an element or a region", _TILES,
              f"{_ROWS}\n    tile.store(y[r, :], value=2.0 * x[r, :])",
              {"array": "an array marked mut, or a region of one", "index": "index of one element, in kernels of lanes",
               "value": "what is written", "cache": _COPIES}),
    Operation("tile.scatter_add", "array, value", "add rows of a tile to the rows that a tile of indices tells", _TILES,
              "rows_of = tile.arange(8) // 2\ntile.scatter_add(y[rows_of, 0:4], x[0:8, 0:4])",
              {"array": "a region of an array marked mut, one of whose indices is a tile of integers of rank 1",
               "value": "what is added: for equal indices one after the other, in their order"}),
    _lanes("tile.alloc_shared", "*shape, dtype=None, swizzle=None", "allocate memory that the lanes of a group share",
           "buffer = tile.alloc_shared(128, dtype=f32)", "i = launch.thread_id()", "buffer[tile.linear_id()] = x[i]",
           "tbarrier()", "if i < n:", "    y[i] = buffer[127 - tile.linear_id()]",
           shape="its extents, constants", dtype="dtype of its elements", swizzle="'xor' spreads columns over banks"),
    _lanes("tshared.alloc", "*shape, dtype=None, swizzle=None", "allocate memory that the lanes of a group share",
           "buffer = tshared.alloc[f32](128)", "i = launch.thread_id()", "buffer[tile.linear_id()] = x[i]",
           "tbarrier()", "if i < n:", "    y[i] = buffer[127 - tile.linear_id()]",
           shape="its extents, constants", dtype="dtype of its elements, as alloc[f32](...) says, too",
           swizzle="'xor' spreads columns over banks"),
    _lanes("tile.cp_async", "target, source", "copy asynchronously into shared memory, or give the block as a tile",
           "buffer = tshared.alloc[f32](128)", "first = tile.group_id(0) * 128",
           "tile.cp_async(buffer, x[first:first+128])", "tbarrier()", "i = launch.thread_id()", "if i < n:",
           "    y[i] = buffer[tile.linear_id()]", target="a shared buffer, or an array",
           source="a region of an array, or a block of tile.range"),
    _lanes("cp_async.shared.global", "dst, src", "copy asynchronously from an array into shared memory",
           "buffer = tshared.alloc[f32](128)", "first = tile.group_id(0) * 128",
           "cp_async.shared.global(buffer, x[first:first+128])", "tbarrier()", "i = launch.thread_id()", "if i < n:",
           "    y[i] = buffer[tile.linear_id()]", dst="a shared buffer; its bytes are there after the next barrier",
           src="a region of an array"),
    _lanes("tile.barrier", "", "wait for every lane of the group, and for its copies",
           "buffer = tshared.alloc[f32](128)", "i = launch.thread_id()", "buffer[tile.linear_id()] = x[i]",
           "tile.barrier()", "if i < n:", "    y[i] = buffer[127 - tile.linear_id()]"),
    _lanes("tbarrier", "", "wait for every lane of the group, and for its copies",
           "buffer = tshared.alloc[f32](128)", "i = launch.thread_id()", "buffer[tile.linear_id()] = x[i]",
           "tbarrier()", "if i < n:", "    y[i] = buffer[127 - tile.linear_id()]"),
    # -- loops and products
    Operation("tile.range", "over, stop=None, *, axis=0, step=1, prefetch=0, parallel=None",
              "blocks of an extent or of an array's axis, spread over the groups", _TILES,
              "for r in tile.range(rows, step=16):\n    y[r:r+16, :] = 2.0 * x[r:r+16, :]",
              {"over": "the end, or the start where stop is given; or an array, whose blocks it gives",
               "stop": "the end",
               "axis": "the array's axis", "step": "the extent of a block, a constant",
               "prefetch": "blocks that are copied ahead",
               "parallel": "True: the trips are independent; False: in order; None: the compiler finds out"}),
    Operation("tile.mma", "a, b, accum=None, acc=None",
              "matrix product of two tiles, or in a loop an iterator over the blocks of one", _PRODUCTS,
              "for i, j, l in tile.mma(A, B, C, BM=64, BN=64, BK=32):\n    tile.mma_sync(i, j, l)",
              {"a": "the left factor", "b": "the right factor", "accum": "dtype of the sums",
               "acc": "what is added to the product"}),
    Operation("tile.mma_sync", "m, n, k", "multiply and accumulate the current blocks of tile.mma(...)", _PRODUCTS,
              "for i, j, l in tile.mma(A, B, C, BM=64, BN=64, BK=32):\n    tile.mma_sync(i, j, l)",
              {"m": "the loop's block of rows", "n": "of columns", "k": "of the sum"}),
    Operation("tile.dot", "a, b, acc=None, exact=False, compute=None", "matrix product of two tiles", _PRODUCTS,
              "for i in tile.range(m, step=64):\n    for j in tile.range(n, step=64):\n"
              "        total = tile.zeros((64, 64))\n        for l in range(0, k, 32):\n"
              "            total += tile.dot(A[i:i+64, l:l+32], B[l:l+32, j:j+64])\n        C[i:i+64, j:j+64] = total",
              {"a": "tile of (m, k); f16 and bf16 are summed in f32, integers in i32",
               "b": "tile of (k, n)", "acc": "what is added to the product",
               "exact": "f32 without tensor cores, as on the CPU", "compute": "tf32: round f32 factors to it"}),
    # -- along an axis
    _rows("tile.softmax", "x, axis=-1", "softmax along an axis", "tile.softmax(x[r, :])", x="a tile",
          axis="the axis along which the results sum to 1"),
    _rows("tile.sum", "x, axis=None, keepdims=False", "sum along an axis, in the same order on every target",
          "x[r, :] / tile.sum(x[r, :])", x="a tile", **_REDUCED),
    _rows("tile.max", "x, axis=None, keepdims=False", "maximum along an axis", "x[r, :] - tile.max(x[r, :])",
          x="a tile", **_REDUCED),
    _rows("tile.min", "x, axis=None, keepdims=False", "minimum along an axis", "x[r, :] - tile.min(x[r, :])",
          x="a tile", **_REDUCED),
    _rows("tile.argmax", "x, axis=None, keepdims=False", "position of the first largest element along an axis, as i64",
          "x[r, :] * tile.argmax(x[r, :])", x="a tile", **_REDUCED),
    _rows("tile.argmin", "x, axis=None, keepdims=False", "position of the first smallest element along an axis, as i64",
          "x[r, :] * tile.argmin(x[r, :])", x="a tile", **_REDUCED),
    _rows("tile.cumsum", "x, axis=-1", "running sums along an axis, in the same order on every target",
          "tile.cumsum(x[r, :])", x="a tile", axis="the axis along which they run"),
    _rows("tile.cummax", "x, axis=-1", "running maxima along an axis", "tile.cummax(x[r, :])", x="a tile",
          axis="the axis along which they run"),
    _rows("tile.cummin", "x, axis=-1", "running minima along an axis", "tile.cummin(x[r, :])", x="a tile",
          axis="the axis along which they run"),
    _lanes("reduce_sum", "x, axis=None, keepdims=False", "sum of all elements, in the same order on every target",
           "total = reduce_sum(x)", "i = launch.thread_id()", "if i < n:", "    y[i] = total", x="an array or a tile",
           **_REDUCED),
    _lanes("reduce_max", "x, axis=None, keepdims=False", "largest element", "top = reduce_max(x)",
           "i = launch.thread_id()", "if i < n:", "    y[i] = top", x="an array or a tile", **_REDUCED),
    _lanes("reduce_min", "x, axis=None, keepdims=False", "smallest element", "low = reduce_min(x)",
           "i = launch.thread_id()", "if i < n:", "    y[i] = low", x="an array or a tile", **_REDUCED),
    # -- element by element
    _rows("tile.where", "condition, a, b", "choose between two values, element by element",
          "tile.where(x[r, :] > 0.0, x[r, :], 0.0)", condition="a tile or value of bool", a="where it is true",
          b="where it is false"),
    _rows("tile.valid", "x", "which elements of a tile exist: those loaded from outside an array do not",
          "tile.cast(tile.valid(x[r, 0:64]), f32)", x="a tile"),
    _rows("tile.fill", "x, value", "the tile, with a value in place of the elements that do not exist",
          "tile.fill(x[r, 0:64], 0.0)", x="a tile", value="a number"),
    _rows("tile.maximum", "a, b", "the larger of two values, element by element", "tile.maximum(x[r, :], 0.0)",
          a="a tile or a number", b="a tile or a number"),
    _rows("tile.minimum", "a, b", "the smaller of two values, element by element", "tile.minimum(x[r, :], 1.0)",
          a="a tile or a number", b="a tile or a number"),
    _rows("tile.mulhi", "a, b", "the upper half of the product of two integers, element by element",
          "tile.mulhi(tile.cast(x[r, :], u32), 0xD2511F53)", a="integers", b="integers; a literal takes their type"),
    _rows("tile.fma", "a, b, c", "a * b + c, rounded once", "tile.fma(x[r, :], 2.0, 1.0)", a="a tile or a number",
          b="a tile or a number", c="a tile or a number"),
    _rows("tile.relu", "x", "max(x, 0), element by element", "tile.relu(x[r, :])", x="a tile or a number"),
    _rows("tile.cast", "x, dtype", "convert to another dtype", "tile.cast(tile.cast(x[r, :], f16), f32)",
          x="a tile or a number", dtype="f32, f16, i32, ..."),
    _element_wise("exp", "e to the power of x, element by element"),
    _element_wise("exp2", "2 to the power of x, element by element"),
    _element_wise("log", "natural logarithm, element by element"),
    _element_wise("log2", "logarithm to the base of 2, element by element"),
    _element_wise("sqrt", "square root, element by element"),
    _element_wise("rsqrt", "1 over the square root, element by element"),
    _element_wise("sin", "sine of an angle in radians, element by element"),
    _element_wise("cos", "cosine of an angle in radians, element by element"),
    _element_wise("tanh", "hyperbolic tangent, element by element"),
    _element_wise("erf", "error function, element by element"),
    _element_wise("abs", "absolute value, element by element"),
    _element_wise("floor", "largest whole number that is not above x, element by element"),
    _element_wise("ceil", "smallest whole number that is not below x, element by element"),
    # -- tiles and shapes
    _rows("tile.arange", "start, stop=None", "a tile of 0, 1, ..., n - 1, or of start, start + 1, ..., stop - 1",
          "x[r, 0:64] * tile.cast(tile.arange(64), f32)", start="the first number, or the end where stop is left out",
          stop="the end; the number of elements is a constant"),
    _rows("tile.full", "shape, value, dtype=None", "a tile of one value", "x[r, 0:64] + tile.full((64,), 1.0)",
          shape="its extents, constants", value="what each element is", dtype=_KIND),
    _rows("tile.zeros", "shape, dtype=f32", "a tile of zeros", "x[r, 0:64] + tile.zeros((64,))",
          shape="its extents, constants", dtype="dtype of its elements"),
    _rows("tile.transpose", "x, *axes", "permute the axes; without axes, reverse them; x.T does the same",
          "tile.transpose(x[r, :])", x="a tile", axes="the old axis at each place"),
    _rows("tile.reshape", "x, *shape", "change the shape, in row-major order", "tile.reshape(x[r, 0:64], 64)",
          x="a tile", shape="its new extents; one may be -1"),
    _rows("tile.broadcast", "x, *shape", "repeat to a shape", "tile.broadcast(x[r, 0], 64)", x="a tile or a number",
          shape="the extents, constants"),
    # -- warps
    _shuffle("warp_shuffle_down", "the value of the lane `amount` above in the warp", "how many lanes above"),
    _shuffle("warp_shuffle_up", "the value of the lane `amount` below in the warp", "how many lanes below"),
    _shuffle("warp_shuffle_xor", "the value of the lane whose index differs by the bits of `amount`",
             "bits by which the index differs"),
    _shuffle("warp_shuffle_idx", "the value of the lane `amount` of the warp", "index of the other lane"),
    _lanes("tile.cooperative_group", "size", "a group of `size` neighbouring lanes",
           "g = tile.cooperative_group(size=32)",
           "i = launch.thread_id()", "g.sync()", _HALF, size="lanes, a constant"),
    # -- annotations
    _lanes("mut", "", "marks a parameter that the kernel writes: `y: mut f32[n]`", "i = launch.thread_id()", _HALF),
    Operation("tensor", "", "an array of any rank, in an annotation: `x: tensor[f32]`",
              "@kernel\ndef example(x: tensor[f32], y: mut tensor[f32]):", "y[:] = 2.0 * x[:]"),
    Operation("Tensor", "", 'an array with named axes, in an annotation: `x: Tensor["B", "D", f32]`',
              '@kernel\ndef example(x: Tensor["B", f32], y: mut Tensor["B", f32]):', "y[:] = 2.0 * x[:]"),
)  # fmt: skip

REFERENCE: Final[Mapping[str, Operation]] = {operation.spelling: operation for operation in _LIST}
"""Every operation, by how it is written."""

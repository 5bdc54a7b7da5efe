"""Parameters: from annotations, which are never evaluated as Python, to types."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.base.source import Span
from tessera.core.base.syntax_trees import parse_expression
from tessera.core.errors.catalog import ArgumentType, BadAnnotation, NotDivisible, UnsupportedSyntax
from tessera.core.program.arguments import ArrayArgument, ScalarArgument
from tessera.core.program.program import Symbol
from tessera.core.program.types import Array, Extent, Scalar
from tessera.frontend.base.context import suggestion
from tessera.frontend.language.namespace import dtype_of
from tessera.frontend.syntax.kernel_source import KernelSource

Lookup = Callable[[str], object]
_ARRAY_TYPES: Final = ("ndarray", "NDArray", "ArrayLike", "array", "Array")
_ARRAY: Final = "write what the array holds and its extents: f32[n], f32[rows, columns]"


@dataclass(frozen=True, slots=True)
class Declared:
    """The content of an annotation: None where it says nothing.

    `array` is None when either may come; `extents` has one entry an axis: a number, or an expression of names.
    """

    dtype: DType | None
    array: bool | None
    extents: tuple[ast.expr, ...] | None
    mutable: bool
    named: bool  # `f32[n]` or `mut ...`: writes need `mut`


def check_signature(kernel: KernelSource) -> None:
    """Raise UnsupportedSyntax for `*args` and `**options`: a kernel's parameters are known when it is compiled."""
    arguments = kernel.function.args
    for star, extra in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if extra is not None:
            column = extra.col_offset + 1
            span = Span(kernel.source.name, extra.lineno, column, extra.lineno, column + len(extra.arg))
            what = f"{star}{extra.arg} in the parameters of {kernel.name}"
            raise UnsupportedSyntax(what, span, "write each parameter by its name").with_source(kernel.source)


def parse_annotation(node: ast.expr | None, lookup: Lookup, span: Callable[[ast.AST], Span]) -> Declared:
    """Read one parameter's annotation.

    Raises:
        BadAnnotation: it is not one of `f32`, `f32[n, m]`, `mut[f32[n]]`, `tensor[f32]`, `Tensor["B", "D", f32]`.
    """
    if node is None:
        return Declared(None, None, None, mutable=True, named=False)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return parse_annotation(_reparse(node, span), lookup, span)
    if isinstance(node, ast.Name | ast.Attribute):
        return _bare(node, lookup, span)
    if not isinstance(node, ast.Subscript):
        raise BadAnnotation(f"{ast.unparse(node)} is not a type", span(node), "write f32, f32[n] or mut f32[n]")
    head = _name(node.value)
    inside = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not inside or (head in ("mut", "tensor") and len(inside) != 1):
        raise BadAnnotation(
            f"{ast.unparse(node)} is not a type", span(node), "write f32[n], mut[f32[n]] or tensor[f32]"
        )
    if head == "mut":
        inner = parse_annotation(inside[0], lookup, span)
        return Declared(inner.dtype, inner.array, inner.extents, mutable=True, named=True)
    if head == "tensor":
        return Declared(_dtype(inside[0], lookup, span), True, None, mutable=True, named=False)
    if head == "Tensor":
        return Declared(_dtype(inside[-1], lookup, span), True, tuple(inside[:-1]), mutable=True, named=False)
    return Declared(_dtype(node.value, lookup, span), True, tuple(inside), mutable=False, named=True)


def _reparse(node: ast.Constant, span: Callable[[ast.AST], Span]) -> ast.expr:
    """A string annotation; every node inside keeps the string's own place."""
    try:
        tree = parse_expression(str(node.value).replace("mut ", "mut|"))
    except SyntaxError:
        raise BadAnnotation(f"{node.value!r} is not a type", span(node), "write f32[n] or mut[f32[n]]") from None
    if isinstance(tree, ast.BinOp) and _name(tree.left) == "mut":
        tree = ast.Subscript(tree.left, tree.right, ast.Load())
    for inner in ast.walk(tree):
        ast.copy_location(inner, node)
    return tree


def _bare(node: ast.Name | ast.Attribute, lookup: Lookup, span: Callable[[ast.AST], Span]) -> Declared:
    head = _name(node)
    if head in ("tensor", "Tensor"):
        return Declared(None, True, None, mutable=True, named=False)
    if head == "mut":
        return Declared(None, True, None, mutable=True, named=True)
    return Declared(_dtype(node, lookup, span), False, (), mutable=False, named=True)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _dtype(node: ast.expr, lookup: Lookup, span: Callable[[ast.AST], Span]) -> DType:
    name = _name(node)
    if name in ("int", "bool"):
        return dtypes.boolean if name == "bool" else dtypes.i64
    if name in dtypes.BY_NAME:
        return dtypes.BY_NAME[name]
    found = dtype_of(lookup(name)) if name else None
    if found is None:
        known = "dtypes: " + ", ".join(d.name for d in dtypes.ALL)
        hint = _ARRAY if name in _ARRAY_TYPES else suggestion(name, [*dtypes.BY_NAME, "tensor", "mut"]) or known
        raise BadAnnotation(f"{ast.unparse(node)} is not a dtype", span(node), hint)
    return found


def array_type(
    name: str, position: int, declared: Declared, argument: ArrayArgument, symbols: dict[str, list[Symbol]],
    lookup: Lookup, span: Callable[[ast.AST], Span], where: Span,
) -> Array:  # fmt: skip
    """The type of an array parameter, and in `symbols` every name that its extents bind."""
    if declared.array is False:
        raise ArgumentType(
            f"{name} is declared {declared.dtype}, and an array was given", where, f"declare {name}: f32[n]"
        )
    if declared.dtype is not None and declared.dtype != argument.dtype:
        raise ArgumentType(
            f"{name} holds {declared.dtype}, and the array given holds {argument.dtype}",
            where,
            f"convert it with .astype({declared.dtype.numpy.name!r}), or declare {name}: {argument.dtype}[...]",
        )
    if declared.extents is not None and len(declared.extents) != len(argument.shape):
        raise ArgumentType(
            f"{name} has {len(declared.extents)} axes, and the array given has {len(argument.shape)}",
            where,
            f"give an array of rank {len(declared.extents)}",
        )
    extents: list[Extent] = []
    for axis in range(len(argument.shape)):
        if declared.extents is None:
            symbol = f"{name}.shape[{axis}]"
            symbols.setdefault(symbol, []).append(Symbol(symbol, position, axis))
            extents.append(symbol)
        else:
            extents.append(_extent(declared.extents[axis], position, axis, symbols, lookup, span))
    return Array(argument.dtype, tuple(extents), argument.contiguous, argument.aligned)


def _extent(
    node: ast.expr, position: int, axis: int, symbols: dict[str, list[Symbol]], lookup: Lookup,
    span: Callable[[ast.AST], Span],
) -> Extent:  # fmt: skip
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = ast.copy_location(ast.Name(node.value, ast.Load()), node)
    if isinstance(node, ast.Name):
        symbols.setdefault(node.id, []).append(Symbol(node.id, position, axis))
        return node.id
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv) and isinstance(node.left, ast.Name):
        scale = _divisor(node, lookup, span)
        symbols.setdefault(node.left.id, []).append(Symbol(node.left.id, position, axis, scale))
        label = f"{node.left.id}/{ast.unparse(node.right)}"
        symbols.setdefault(label, []).append(Symbol(label, position, axis))
        return label
    hint = "write a number, a name, or a name divided: K/tp"
    if isinstance(node, ast.Slice):
        hint = "give the axis a name: f32[n]"
    raise BadAnnotation(f"{ast.unparse(node)} is not an extent", span(node), hint)


def _divisor(node: ast.BinOp, lookup: Lookup, span: Callable[[ast.AST], Span]) -> int:
    right = node.right
    value = right.value if isinstance(right, ast.Constant) else lookup(_name(right)) if _name(right) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise NotDivisible(
            f"{ast.unparse(node)} needs the size of {ast.unparse(right)!r}",
            span(right),
            f"give it a number: {ast.unparse(right)} = 2 before the kernel",
        )
    return value


def scalar_type(name: str, declared: Declared, argument: ScalarArgument, where: Span) -> Scalar:
    """The type of a scalar parameter: as declared, else the argument's own."""
    if declared.array:
        raise ArgumentType(f"{name} is an array, and a number was given", where, "give an array, e.g. np.array([...])")
    wanted = declared.dtype or argument.dtype
    if wanted.is_storage:
        raise ArgumentType(f"{name} holds {wanted}, which only arrays do", where, f"declare {name}: f32")
    if argument.dtype.is_float and not wanted.is_float:
        raise ArgumentType(f"{name} holds {wanted}, and a float was given", where, "give an integer")
    return Scalar(wanted)

"""Read what a point of an index launch sees and may do from annotations: `f16[M, K/tp]`, `mut f32[N]`, `Region[read]`.

An extent `K/tp` is the shard of K along tp; `K` is all of it.  A kernel that names no mesh axis was written for one
device: each point sees its shards.  A mesh axis that cuts an extent of what is read, and
that no extent of what is written knows, is summed over: each point has a partial sum.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from tessera.api.index_launches.region import regions_of
from tessera.core.base.syntax_trees import parse_expression
from tessera.kernels.kernel import Kernel

WRITES = ("write", "update", "reduce_sum")


@dataclass(frozen=True, slots=True)
class Extent:
    """An extent of an annotation: its name, and the mesh axes that it is divided by."""

    name: str
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PointParameter:
    """A parameter.

    privilege: "read"; "write", whose old elements do not count; "update", which is both; "reduce_sum"
    extents: one a dimension; None where the annotation says nothing: a point sees its shard
    """

    name: str
    privilege: str
    extents: tuple[Extent, ...] | None = None

    @property
    def writes(self) -> bool:
        """True where it is written."""
        return self.privilege in WRITES

    def sees_whole(self, axis: str) -> "PointParameter":
        """Return the parameter as a point sees it that has all along a mesh axis."""
        assert self.extents is not None
        extents = tuple(Extent(each.name, tuple(a for a in each.axes if a != axis)) for each in self.extents)
        return PointParameter(self.name, self.privilege, extents)


def parameters_of(function: Callable[..., object], axes: Sequence[str]) -> tuple[PointParameter, ...]:
    """Return the parameters of a kernel, of a jit function, or of any other; `axes`: of the mesh."""
    return _read_parameters(function, tuple(axes))


@lru_cache(maxsize=128)
def _read_parameters(function: Callable[..., object], axes: tuple[str, ...]) -> tuple[PointParameter, ...]:
    if isinstance(function, Kernel):
        found = tuple(_of_kernel(function, axes))
        if any(extent.axes for each in found for extent in each.extents or ()):
            return found
        return tuple(PointParameter(each.name, each.privilege) for each in found)
    inner = cast("Callable[..., object]", getattr(function, "function", function))
    privileges = regions_of(inner)
    return tuple(PointParameter(name, privileges.get(name, "read")) for name in inspect.signature(inner).parameters)


def summed_over(parameters: Sequence[PointParameter], axes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the mesh axes along which points hold partial sums of each parameter that is written."""
    found: dict[str, tuple[str, ...]] = {}
    for each in parameters:
        if each.writes and each.extents is not None:
            found[each.name] = tuple(axis for axis in axes if _is_summed(parameters, each, axis))
    return found


def _is_summed(parameters: Sequence[PointParameter], written: PointParameter, axis: str) -> bool:
    cut = {e.name for p in parameters if not p.writes for e in p.extents or () if axis in e.axes}
    kept = {e.name for p in parameters if p.writes for e in p.extents or ()}
    own = {e.name for e in written.extents or () if axis in e.axes}
    return bool(cut - kept) and not own & cut


def names_in_body(kernel: Kernel) -> frozenset[str]:
    """Return the names that the statements of a kernel use."""
    body = kernel.source.function.body
    return frozenset(node.id for each in body for node in ast.walk(each) if isinstance(node, ast.Name))


def _of_kernel(kernel: Kernel, axes: Sequence[str]) -> Iterator[PointParameter]:
    function = kernel.source.function
    written, overwritten = frozenset(_written(function)), _overwritten(function)
    for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        annotation = each.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = parse_expression(annotation.value.replace("mut ", "mut|"))
            if isinstance(annotation, ast.BinOp):
                annotation = ast.Subscript(annotation.left, annotation.right, ast.Load())
        marked = isinstance(annotation, ast.Subscript) and _name(annotation.value) == "mut"
        inner = annotation.slice if marked and isinstance(annotation, ast.Subscript) else annotation
        privilege = "read" if not marked and each.arg not in written else "update"
        if each.arg in overwritten:
            privilege = "write"
        yield PointParameter(each.arg, privilege, _extents(inner, axes))


def _extents(annotation: ast.expr | None, axes: Sequence[str]) -> tuple[Extent, ...] | None:
    if not isinstance(annotation, ast.Subscript) or _name(annotation.value) in ("tensor", ""):
        return None
    listed = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    if _name(annotation.value) == "Tensor":
        listed = listed[:-1]
    return tuple(_extent(each, axes) for each in listed)


def _extent(node: ast.expr, axes: Sequence[str]) -> Extent:
    divided: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv) and _name(node.right) in axes:
        divided.insert(0, _name(node.right))
        node = node.left
    return Extent(ast.unparse(node), tuple(divided))


def _written(function: ast.FunctionDef) -> Iterator[str]:
    """Give the names whose elements a kernel stores to."""
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            stores = node.func.attr == "store" or node.func.attr.startswith("atomic")
            targets = [ast.Subscript(node.args[0], node.args[0], ast.Store())] if stores else []
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and _name(node.iter.func) == "mma":
            targets = [ast.Subscript(each, each, ast.Store()) for each in node.iter.args[2:3]]
        for target in targets:
            if isinstance(target, ast.Subscript) or isinstance(node, ast.AugAssign):
                yield _name(target.value if isinstance(target, ast.Subscript) else target)


def _overwritten(function: ast.FunctionDef) -> frozenset[str]:
    """Return the names that are nothing but stored to as a whole, `C[:] = ...`: their old elements do not count."""
    targets = [each for statement in function.body if isinstance(statement, ast.Assign) for each in statement.targets]
    parts = [each for each in targets if isinstance(each, ast.Subscript)]
    whole = [_name(each.value) for each in parts if ast.unparse(each.slice) in (":", "...")]
    used = [node.id for each in function.body for node in ast.walk(each) if isinstance(node, ast.Name)]
    return frozenset(name for name in whole if name and used.count(name) == whole.count(name))


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""

"""From one kernel's source and the types of its arguments to a `Program`.

`specialise` builds with symbolic extents first; whenever an extent turns out to be needed as a number (it becomes the
extent of a tile) or the shape of shared memory becomes known, the attempt is thrown away and made again knowing it.
"""

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tessera.core.base.source import Span
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import (
    ArgumentType,
    BadKernelOption,
    DependentTrips,
    NoImplementation,
    SharedNeedsTile,
    SharedOverflow,
    UnknownSharedShape,
)
from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.program.expressions import Expression, evaluate, symbols_in
from tessera.core.program.program import Attribute, Block, Domain, Parameter, Program, Symbol, Value
from tessera.core.program.types import Array, Scalar
from tessera.frontend.base.bindings import Knowledge, Rebuild
from tessera.frontend.base.builder import Builder
from tessera.frontend.base.context import Context
from tessera.frontend.base.observer import Observer
from tessera.frontend.base.subscripts import evaluator_dim
from tessera.frontend.build.annotations import array_type, parse_annotation, scalar_type
from tessera.frontend.build.dead_code import prune
from tessera.frontend.build.reduction_loops import reduce_trips
from tessera.frontend.build.shared_extents import bound_symbols, join_extents, same_extents
from tessera.frontend.build.statements import Statements
from tessera.frontend.language.namespace import LANGUAGE
from tessera.frontend.syntax.kernel_source import KernelSource

_MAX_GROUP = 1024
_ATTEMPTS = 64
_CHOSEN: Final = 256
"""Lanes of a group that is left open, at most."""
_WARP: Final = 32


def specialise(
    kernel: KernelSource,
    arguments: Sequence[Argument],
    namespace: Mapping[str, object],
    *,
    group: tuple[int, ...] | None = None,
    shared_limit: int | None = None,
    constants: Mapping[str, Attribute] | None = None,
    blocks: tuple[int, ...] | None = None,
    observer: Observer | None = None,
) -> Program:
    """Build `kernel` for arguments of these types.

    group: lanes a group along each axis (`tile[...]`), or None
    shared_limit: bytes of shared memory a group may use, or None
    constants: tuning parameters: they go before free names and the keywords of tile iterators
    blocks: lanes of a group in the launch, for a kernel that leaves it open, or None
    observer: hears what names stand for; with one, statements with a mistake are left out, and it has the mistakes

    Raises:
        TesseraError: a mistake of the user's, with the place and the kernel's source attached.
    """
    try:
        _check_options(kernel, group, shared_limit)
        knowledge = Knowledge(_known_extents(kernel, arguments, namespace, constants or {}))
        knowledge.blocks, knowledge.observer = blocks, observer
        for _ in range(_ATTEMPTS):
            knowledge.incomplete = None
            if observer is not None:
                observer.restart()
            try:
                return _Build(kernel, arguments, namespace, group, shared_limit, constants or {}, knowledge).run()
            except Rebuild:
                continue
        raise AssertionError(f"{kernel.name}: no end of rebuilding")
    except TesseraError as error:
        raise error.with_source(kernel.source) from None


def _check_options(kernel: KernelSource, group: tuple[int, ...] | None, shared_limit: int | None) -> None:
    span = _head(kernel)
    if group is not None and (not 1 <= len(group) <= 3 or min(group) < 1 or math.prod(group) > _MAX_GROUP):
        raise BadKernelOption(
            f"a group of {group} lanes", span, f"1 to 3 axes, each at least 1, together at most {_MAX_GROUP}"
        )
    if shared_limit is not None and shared_limit < 0:
        raise BadKernelOption(f"a shared memory budget of {shared_limit} bytes", span, "write shared(8_KiB)")


def _head(kernel: KernelSource) -> Span:
    node = kernel.function
    column = node.col_offset + 1
    return Span(kernel.source.name, node.lineno, column, node.lineno, column + len("def ") + len(node.name))


def _known_extents(
    kernel: KernelSource, arguments: Sequence[Argument], namespace: Mapping[str, object],
    constants: Mapping[str, Attribute],
) -> dict[str, int]:  # fmt: skip
    """Each symbol's value in this launch, for the extents that get fixed."""
    build = _Build(kernel, arguments, namespace, None, None, constants, Knowledge({}))
    build.declare()
    values: dict[str, int] = {}
    for name, bindings in build.symbols.items():
        first = bindings[0]
        argument = arguments[first.parameter]
        if isinstance(argument, ArrayArgument):
            values[name] = argument.shape[first.axis] * first.scale
    return values


class _Build:
    """One attempt."""

    def __init__(
        self, kernel: KernelSource, arguments: Sequence[Argument], namespace: Mapping[str, object],
        group: tuple[int, ...] | None, shared_limit: int | None, constants: Mapping[str, Attribute],
        knowledge: Knowledge,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.arguments = arguments
        self.knowledge = knowledge
        self.builder = Builder(knowledge)
        chosen = group is None and knowledge.axes > 1
        if chosen:
            group = knowledge.blocks or knowledge.group or chosen_group([0] * knowledge.axes)[0]
        self.builder.affine.group = group
        self.context = Context(kernel.source, self.builder, namespace, constants, group, shared_limit, chosen)
        self.symbols: dict[str, list[Symbol]] = {}

    def run(self) -> Program:
        """Build the whole kernel."""
        parameters = self.declare()
        body = self.kernel.function.body
        self._refuse_declaration(body)
        for name in self.symbols:
            if name.isidentifier() and name not in self.context.scope:
                self.context.scope[name] = self._symbol(name)
        Statements(self.context).run(body)
        self._check_complete()
        join_extents(self.builder, self.symbols)
        for a, b in self.context.equal:
            self.symbols[a] += [Symbol(a, s.parameter, s.axis, s.scale) for s in self.symbols[b]]
        parameters = tuple(
            replace(p, mutable=p.mutable and p.name in self.context.written)
            if p.name not in self.context.read_only
            else p
            for p in parameters
        )
        domain = self._domain()
        used = prune(self.builder.finish())
        _check_parallel(used)
        program = Program(
            self.kernel.name, parameters, used, bound_symbols(self.knowledge, self.symbols),
            domain, self.context.group, self.context.shared_limit, dict(self.context.constants),
            self.kernel.source, _head(self.kernel), self.context.chosen,
            same_extents=same_extents(self.knowledge, self.symbols),
        )  # fmt: skip
        return reduce_trips(program)

    def declare(self) -> tuple[Parameter, ...]:
        """Give each parameter its type and its value, and bind the shape symbols."""
        args = self.kernel.function.args
        nodes = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        if len(nodes) != len(self.arguments):
            raise ArgumentType(
                f"{self.kernel.name} takes {len(nodes)} arguments, not {len(self.arguments)}",
                _head(self.kernel),
                f"{self.kernel.name}({', '.join(n.arg for n in nodes)})",
            )
        parameters = [self._declare_one(i, node) for i, node in enumerate(nodes)]
        return tuple(parameters)

    def _declare_one(self, position: int, node: ast.arg) -> Parameter:
        span, argument = self.context.span(node), self.arguments[position]
        declared = parse_annotation(node.annotation, self._lookup, self.context.span)
        if isinstance(argument, ArrayArgument):
            kind = array_type(
                node.arg, position, declared, argument, self.symbols, self._lookup, self.context.span, span
            )
            fixed = tuple(self.knowledge.extent(e) for e in kind.shape)
            value = Value(Array(kind.dtype, fixed, kind.contiguous, kind.aligned), node.arg, span)
        else:
            value = Value(scalar_type(node.arg, declared, argument, span), node.arg, span)
        self.context.scope[node.arg] = self.context.parameters[node.arg] = value
        self.context.saw(replace(span, end_line=span.line, end_column=span.column + len(node.arg)), value)
        if declared.named and not declared.mutable:
            self.context.read_only[node.arg] = span
        return Parameter(node.arg, value, declared.mutable and not isinstance(value.type, Scalar), span)

    def _lookup(self, name: str) -> object:
        for names in (self.context.constants, self.context.namespace, LANGUAGE):
            if name in names:
                return names[name]
        return None

    def _symbol(self, name: str) -> Value | int:
        if name in self.knowledge.static:
            return self.knowledge.static[name]
        return evaluator_dim(self.builder, name, _head(self.kernel))

    def _refuse_declaration(self, body: list[ast.stmt]) -> None:
        rest = [
            s
            for s in body
            if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) and isinstance(s.value.value, str))
        ]
        if (
            len(rest) == 1
            and isinstance(rest[0], ast.Expr)
            and isinstance(rest[0].value, ast.Constant)
            and rest[0].value.value is ...
        ):
            raise NoImplementation(
                f"{self.kernel.name} is only declared: its body is `...`", self.context.span(rest[0]), "write its body"
            )

    def _check_complete(self) -> None:
        if self.knowledge.incomplete is not None:
            used = self.knowledge.incomplete
            raise UnknownSharedShape(
                "nothing tells the shape of this shared memory before it is used",
                min(used.hole.sites),
                "write tshared.alloc[f32](128), or copy into it",
            )
        limit = self.context.shared_limit
        if limit is not None and self.context.shared_bytes > limit:
            over = self.context.shared_bytes - limit
            raise SharedOverflow(
                f"{self.context.shared_bytes} bytes of shared memory are allocated, {over} more than the budget of "
                f"{limit}",
                self.context.sync_span or _head(self.kernel),
                f"allocate less, or write shared({-(-self.context.shared_bytes // 1024)}_KiB)",
            )
        ungrouped = self.context.group is None or self.context.chosen
        if self.context.lane_ids and self.context.sync_span is not None and ungrouped:
            raise SharedNeedsTile(
                "shared memory and barriers belong to a group, and this kernel does not say how large a group is",
                self.context.sync_span,
                "write @kernel tile[(128,)], or @kernel(tile=(128,))",
            )

    def _domain(self) -> Domain:
        """How many lanes or groups a call without a grid needs."""
        affine = self.builder.affine
        if self.context.group is not None and "grid_groups" in self.symbols:
            return Domain("groups", ("grid_groups",))
        if affine.has_axes:
            return Domain("groups") if self.context.group is None else self._domain_of_axes(self.context.group)
        if self.context.group is not None:
            if affine.compared and affine.bounds(None):
                return Domain("lanes", affine.bounds(None))
            if affine.group_indexed:
                return Domain("groups", _unique(affine.group_indexed))
            if affine.bounds(None):
                return Domain("lanes", affine.bounds(None))
            return Domain("lanes") if affine.counts_groups else Domain("groups", (1,))
        if not self.context.lane_ids:
            if not self.context.group_ids:
                return Domain("single")
            return Domain("groups", _unique(affine.group_indexed))
        return Domain("lanes", affine.bounds(None) or _unique(self.context.group_sizes))

    def _domain_of_axes(self, group: tuple[int, ...]) -> Domain:
        """As many lanes along each axis as the index there is compared with; along one without an index, a group."""
        affine, rank = self.builder.affine, max(len(group), 1 + max(self.builder.affine.grid_axes))
        sizes = (*group, 1, 1)
        axes = tuple(
            affine.bounds(axis) or (() if axis in affine.grid_axes else (sizes[axis],)) for axis in range(rank)
        )
        if self.context.chosen and self.knowledge.blocks is None and self.knowledge.group is None:
            self._choose_group(axes)
        return Domain("lanes", axes=axes)

    def _choose_group(self, axes: Sequence[tuple[Expression, ...]]) -> None:
        """Choose the group of a kernel that leaves it open; it is compiled for the extents that decide.

        Raises Rebuild, for a group other than the one that was assumed.
        """
        known = self.knowledge.extents
        extents = [max((evaluate(bound, known.__getitem__) for bound in bounds), default=0) for bounds in axes]
        self.knowledge.group, short = chosen_group(extents)
        if self.knowledge.group != self.context.group:
            names = {name for axis in short for bound in axes[axis] for name in symbols_in(bound)}
            self.knowledge.static.update({name: known[name] for name in names})
            raise Rebuild


def _check_parallel(body: Block) -> None:
    """Refuse `parallel=True` for a loop whose trips hand values on."""
    for op in body.walk():
        if op.opcode == "for" and op.attributes.get("parallel") and op.results:
            name = op.results[0].name or "a value"
            hint = "add into an array, out[0] += ..., or leave parallel=True out"
            raise DependentTrips(f"each trip needs {name} of the one before", op.span, hint)


def chosen_group(extents: Sequence[int]) -> tuple[tuple[int, ...], list[int]]:
    """Return the lanes of a group along each axis for a launch of these extents, and the axes whose extent decides.

    They lie along the last axis, so that they access memory side by side; where that is shorter than a warp (the
    colours of an image), along the axes before it too.  0: not known.
    """
    left, group, short = _CHOSEN, list[int](), list[int]()
    for axis, extent in reversed(list(enumerate(extents))):
        size = left
        if 0 < extent < _WARP and left > 1:
            short.append(axis)
            size = extent if not group else min(left, 1 << (extent - 1).bit_length())
        group.append(size)
        left = 1 << ((left // size).bit_length() - 1)
    return tuple(reversed(group)), short


def _unique(extents: Sequence[Expression]) -> tuple[Expression, ...]:
    return tuple(dict.fromkeys(extents))

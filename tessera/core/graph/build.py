"""Build graphs node by node: types are inferred, numbers given, and every node knows where it comes from."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tessera.core.base.dtypes import DType, f32, f64
from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.graph.expr import Argument, Expr, Literal, Number, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import UNKNOWN_SOURCE, Body, Graph, Node, Origin, Routine, Tensor, Value
from tessera.core.graph.index_maps import IndexMap, broadcast, identity, nests, reshape, transpose
from tessera.core.graph.infer import infer, infer_all
from tessera.core.graph.numerics import Numerics
from tessera.core.program.program import Attribute


def accumulator(dtype: DType) -> DType:
    """Return the dtype that products of `dtype` are summed in: f32 for floats of at most 32 bits, else its own."""
    return dtype if dtype == f64 or not dtype.is_float else f32


class GraphBuilder:
    """Appends nodes.

    nodes: what there is so far; origin, span: those of the next nodes, see `within`
    """

    def __init__(self, first_ident: int = 0) -> None:
        self.nodes: list[Node] = []
        self.origin = Origin()
        self.span = NOWHERE
        self._next = first_ident

    @contextmanager
    def within(self, origin: Origin | None = None, span: Span | None = None) -> Generator[None]:
        """Give what is built inside the `with` this origin and this place in the user's text."""
        before = self.origin, self.span
        self.origin = origin if origin is not None else self.origin
        self.span = span if span is not None else self.span
        try:
            yield
        finally:
            self.origin, self.span = before

    def finish(
        self, name: str, inputs: Sequence[Value], outputs: Sequence[Value], source: Source = UNKNOWN_SOURCE,
        span: Span = NOWHERE,
    ) -> Graph:  # fmt: skip
        """Return the graph of everything built, with these inputs and outputs."""
        return Graph(name, tuple(inputs), tuple(self.nodes), tuple(outputs), source, span)

    def add(
        self, op: str, operands: Sequence[Value], body: Body = None, name: str = "", **attributes: Attribute
    ) -> Value:
        """Append one node and return its result.  Raises IllTyped."""
        kind = infer(op, [operand.type for operand in operands], attributes, body)
        result = Value(kind, name, self.span)
        self.append(Node(op, tuple(operands), (result,), attributes, body, self._next, self.origin, self.span))
        return result

    def add_all(
        self, op: str, operands: Sequence[Value], body: Body = None, **attributes: Attribute
    ) -> tuple[Value, ...]:
        """Append one node and return all of its results.  Raises IllTyped."""
        kinds = infer_all(op, [operand.type for operand in operands], attributes, body)
        results = tuple(Value(kind, "", self.span) for kind in kinds)
        self.append(Node(op, tuple(operands), results, attributes, body, self._next, self.origin, self.span))
        return results

    def call(self, routine: Routine, operands: Sequence[Value], **options: Attribute) -> tuple[Value, ...]:
        """Call a routine.  Raises IllTyped for operands that it refuses."""
        return self.add_all("call", operands, routine, **options)

    def inline(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Append the nodes of a graph with these values for its inputs; return its outputs here.

        Nodes keep their place in the text, and are parts of the composite that is being built.
        """
        values = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            results = tuple(replace(value) for value in node.results)
            values.update(zip(node.results, results, strict=True))
            origin = replace(self.origin, composite=(*self.origin.composite, *node.origin.composite))
            self.append(
                Node(node.op, tuple(values[operand] for operand in node.operands), results, node.attributes, node.body,
                     0, origin, node.span)
            )  # fmt: skip
        return [values[value] for value in graph.outputs]

    def append(self, node: Node) -> None:
        """Append a node that is ready, with the next number unless it brings a later one."""
        if node.ident < self._next:
            node = replace(node, ident=self._next)
        self._next = node.ident + 1
        self.nodes.append(node)

    def stored(self, value: Value, numerics: Numerics) -> Value:
        """Say of the newest value that its elements are codes: return what stands for it from now on."""
        node = self.nodes[-1]
        assert node.results == (value,)
        fresh = replace(value, numerics=numerics)
        self.nodes[-1] = replace(node, results=(fresh,))
        return fresh

    @property
    def next_ident(self) -> int:
        """The number of the next node."""
        return self._next

    def skip_to(self, ident: int) -> None:
        """Leave numbers below this one to others."""
        self._next = max(self._next, ident)

    # Maps

    def map(
        self, body: Expr, operands: Sequence[Value], axes: Sequence[Sequence[int]], shape: Sequence[int], name: str = ""
    ) -> Value:
        """Apply `body` element by element; axes: of each operand, which axes of the result its own are."""
        places = tuple(tuple(each) for each in axes)
        return self.add("map", operands, body, name, axes=places, shape=tuple(shape))

    def elementwise(self, body: Expr, operands: Sequence[Value]) -> Value:
        """Apply `body` to operands whose last axes are those of the result; extents are equal, or 1 or missing."""
        shape = broadcast_shape([operand.type.shape for operand in operands])
        aligned = [self._squeezed(operand, shape) for operand in operands]
        return self.map(body, [value for value, _ in aligned], [axes for _, axes in aligned], shape)

    def _squeezed(self, value: Value, shape: Sequence[int]) -> tuple[Value, tuple[int, ...]]:
        """Return `value` without the axes of extent 1 that are repeated, and which axes of `shape` are left."""
        mine, first = value.type.shape, len(shape) - len(value.type.shape)
        kept = [axis for axis, size in enumerate(mine) if size == shape[first + axis]]
        if len(kept) < len(mine):
            value = self.reshape(value, [mine[axis] for axis in kept])
        return value, tuple(first + axis for axis in kept)

    def full(self, number: Number, dtype: DType, shape: Sequence[int]) -> Value:
        """Return one number everywhere."""
        return self.map(Literal(number, dtype), (), (), shape)

    def cast(self, value: Value, dtype: DType) -> Value:
        """Convert: a rounding that nothing but a permitted rule removes."""
        if value.type.dtype == dtype:
            return value
        return self.elementwise(cast_expr(Argument(0, value.type.dtype), dtype), [value])

    def unary(self, opcode: str, value: Value) -> Value:
        """Apply an operation of one operand in the operand's own dtype."""
        return self.elementwise(apply(opcode, Argument(0, value.type.dtype)), [value])

    def binary(self, opcode: str, left: Value, right: Value) -> Value:
        """Apply an operation of two operands of one dtype, broadcast together."""
        return self.elementwise(apply(opcode, *_arguments((left, right))), [left, right])

    def scaled(self, value: Value, number: Number) -> Value:
        """Multiply by a number."""
        dtype = value.type.dtype
        return self.elementwise(apply("mul", Argument(0, dtype), Literal(number, dtype)), [value])

    def sum_of(self, values: Sequence[Value]) -> Value:
        """Add values of one type, the first two first."""
        if len(values) == 1:
            return values[0]
        total, *rest = _arguments(values)
        body: Expr = total
        for each in rest:
            body = apply("add", body, each)
        return self.elementwise(body, values)

    # Contractions and reductions

    def contract(
        self, left: Value, right: Value, labels: Sequence[Sequence[int]], result: Sequence[int], *,
        accumulate: DType | None = None, exact: bool = False, tile_shape: tuple[int, ...] = (), compute: str = "",
    ) -> Value:  # fmt: skip
        """Sum products over the labels that `result` lacks; see `spec.py`."""
        into = accumulate or accumulator(left.type.dtype)
        return self.add(
            "contract", (left, right), labels=tuple(map(tuple, labels)), result=tuple(result), accumulate=into.name,
            exact=exact, tile_shape=tile_shape, compute=compute,
        )  # fmt: skip

    def reduce(self, value: Value, axes: Iterable[int], kind: str = "sum") -> Value:
        """Remove axes by a sum, a maximum or a minimum."""
        removed = tuple(sorted(axes))
        return self.add("reduce", (value,), axes=removed, kind=kind) if removed else value

    # Moving elements

    def view(self, value: Value, index_map: IndexMap) -> Value:
        """Read `value` through an index map; itself where that changes nothing."""
        return value if index_map.is_identity(value.type.shape) else self.add("view", (value,), index_map)

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Return the view whose axis i is axis `permutation[i]`."""
        return self.view(value, transpose(value.type.shape, permutation))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the same elements in row-major order in another shape, over a flat view where extents do not nest."""
        if not nests(value.type.shape, shape):
            value = self.view(value, reshape(value.type.shape, (value.type.size,)))
        return self.view(value, reshape(value.type.shape, shape))

    def broadcast(self, value: Value, places: Sequence[int], shape: Sequence[int]) -> Value:
        """Repeat: axis i of `value` is axis `places[i]` of the result."""
        return self.view(value, broadcast(value.type.shape, places, shape))

    def copy(self, value: Value) -> Value:
        """Return a value of its own that equals `value`: an output that is an input."""
        return self.add("view", (value,), identity(value.type.shape))

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Join values along an axis."""
        return values[0] if len(values) == 1 else self.add("concat", values, axis=axis)

    def gather(self, table: Value, index: Value, axis: int = 0) -> Value:
        """Take the elements of `table` along `axis` at integer indices; outside the table there is 0."""
        return self.add("gather", (table, index), axis=axis)

    def scatter_add(self, index: Value, values: Value, extent: int, axis: int = 0) -> Value:
        """Add `values` at their indices to zeros, in index order; outside, they are dropped."""
        return self.add("scatter_add", (index, values), axis=axis, extent=extent)

    def random(self, key: Value, shape: Sequence[int], stream: int = 0) -> Value:
        """Return random bits, u32: a function of the key, the stream and the element's index."""
        return self.add("random", (key,), shape=tuple(shape), stream=stream)

    def iota(self, extent: int) -> Value:
        """Return 0, 1, 2, ... as i64."""
        return self.add("iota", (), extent=extent)


def _arguments(values: Sequence[Value]) -> list[Expr]:
    return [Argument(number, value.type.dtype) for number, value in enumerate(values)]


def broadcast_shape(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return NumPy's common shape.  Raises ValueError for shapes that do not broadcast together."""
    found: list[int] = []
    for shape in shapes:
        rest = list(shape)
        found = [1] * (len(rest) - len(found)) + found
        rest = [1] * (len(found) - len(rest)) + rest
        for axis, (a, b) in enumerate(zip(found, rest, strict=True)):
            if a != b and 1 not in (a, b):
                raise ValueError(f"{tuple(found)} and {tuple(shape)} do not broadcast")
            found[axis] = b if a == 1 else a
    return tuple(found)


def types_of(values: Iterable[Value]) -> tuple[Tensor, ...]:
    """Return the types of values."""
    return tuple(value.type for value in values)

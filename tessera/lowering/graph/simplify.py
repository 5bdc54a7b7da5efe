"""Simplify a graph without changing a bit of what it computes.

    before: %t = view(%K) transposed; %s = contract(%Q, %t) [i, k] [k, j]; %u = view(%x); %v = view(%u)
    after:  %s = contract(%Q, %K) [i, k] [j, k]; %v = view(%x)

Views of views are one view; transpositions and repetitions become labels of what reads them; equal nodes are computed
once; sums of nothing are numbers, products of which nothing is summed are maps; conversions to the type that is there,
back to the one that was there, and nodes that no output needs, go away.
"""

import typing
from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.base.dtypes import DType, boolean
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, Number, apply, arguments, cast, fold, substitute
from tessera.core.graph.graph import Body, Graph, Node, Value
from tessera.core.graph.index_maps import IndexMap, compose, is_reshape, nests, orienting, reshape
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.graph.rewrite import Rewriter, own_outputs, with_bodies
from tessera.core.program.program import Attribute
from tessera.lowering.graph.nothing import constant_of

RULE: Final = "simplify"


def simplify(graph: Graph) -> Graph:
    """Return the simplified graph, bodies included: one pass in program order reaches the fixed point.

    Where every output was an array of its own, it still is, though a reduction of one element is its operand.
    """
    simplified = with_bodies(_Simplifier(graph).run(), simplify)
    return own_outputs(simplified) if own_outputs(graph) is graph else simplified


class _Simplifier:
    """seen: nodes of the new graph by what they compute; makers: by their results; old: what results stood for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rewriter = Rewriter(graph, RULE)
        self.seen: dict[tuple[object, ...], Value] = {}
        self.makers: dict[Value, Node] = {}
        self.old: dict[Value, Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self._visit(node)
        return self.rewriter.finish()

    def _visit(self, node: Node) -> None:
        operands = self.rewriter.operands(node)
        constant = constant_of(node)
        if constant is not None:
            self._map_anew(node, constant, [], [], node.result.type.shape)
            return
        match node.op:
            case "view":
                self._view(node, operands)
            case "map":
                self._map(node, operands)
            case "contract":
                self._contract(node, operands)
            case "reduce":
                self._reduce(node, operands)
            case "concat":
                self._concat(node, operands)
            case _ if len(node.results) != 1 or node.graphs:
                self.rewriter.keep(node, operands)
            case _:
                self._keep(node, operands, node.attributes, node.body)

    def _keep(self, node: Node, operands: Sequence[Value], given: Mapping[str, Attribute], body: Body) -> None:
        """Take a node over, changed or not, unless an equal one is there already."""
        key = (node.op, tuple(operands), tuple(sorted(given.items(), key=lambda item: item[0])), body)
        found = self.seen.get(key)
        if found is not None and node.result not in self.graph.outputs:
            self.rewriter.replace(node, found)
            return
        if given == node.attributes and body == node.body:
            self.rewriter.keep(node, operands)
            made = self.rewriter.builder.nodes[-1]
        else:
            with self.rewriter.builder.within(self.rewriter.origin(node), node.span):
                value = self.rewriter.builder.add(node.op, operands, body, node.result.name, **given)
            self.rewriter.replace(node, value)
            made = self.rewriter.builder.nodes[-1]
        self.seen.setdefault(key, made.result)
        self.makers[made.result] = made
        self.old[made.result] = node.result

    def _view(self, node: Node, operands: list[Value]) -> None:
        (operand,), index_map = operands, node.index_map
        maker = self.makers.get(operand)
        if maker is not None and maker.op == "view":
            together = _together(index_map, maker.index_map, maker.operands[0].type.shape)
            if together is not None:
                operand, index_map = maker.operands[0], together
        if index_map.is_identity(operand.type.shape) and node.result not in self.graph.outputs:
            self.rewriter.replace(node, operand)
            return
        if self._converted(node, operand, index_map):
            return
        operand, index_map = self._oriented(node, operand, index_map)
        places = _places(index_map, operand.type.shape)
        if node.result in self.graph.outputs and places is not None and not is_reshape(index_map, operand.type.shape):
            body = Argument(0, operand.type.dtype)
            self._map_anew(node, body, [operand], [places], index_map.shape)
            return
        self._keep(node, [operand], node.attributes, index_map)

    def _converted(self, node: Node, operand: Value, index_map: IndexMap) -> bool:
        """Convert to a longer type behind a reshape rather than before it: what lies in memory is in another shape."""
        maker = self.makers.get(operand)
        if maker is None or maker.op != "map" or node.result in self.graph.outputs or not _lengthens(maker.expr):
            return False
        (source,), (axes,) = maker.operands, labels_of(maker.attributes["axes"])
        shape = operand.type.shape
        if (
            axes != tuple(range(len(shape)))
            or not is_reshape(index_map, shape)
            or _places(index_map, shape) is not None
        ):
            return False
        with self.rewriter.builder.within(self.rewriter.origin(node), node.span):
            viewed = self._viewed(source, index_map)
        self._map_anew(node, maker.expr, [viewed], [tuple(range(len(index_map.shape)))], index_map.shape)
        return True

    def _oriented(self, node: Node, operand: Value, index_map: IndexMap) -> tuple[Value, IndexMap]:
        """Turn the result of a map or a contraction that one view alone reads, where it then needs no copy."""
        maker = self.makers.get(operand)
        if maker is None or maker.op not in ("map", "contract") or operand in self.graph.outputs:
            return operand, index_map
        chain = (node.operands[0], self.old.get(operand, operand))
        if any(len(self.graph.users.get(value, ())) != 1 for value in chain):
            return operand, index_map
        if is_reshape(index_map, operand.type.shape):
            return operand, index_map
        order = orienting(index_map, operand.type.shape)
        if order is None:
            return operand, index_map
        shape = tuple(operand.type.shape[axis] for axis in order)
        attributes = dict(maker.attributes)
        if maker.op == "map":
            axes = labels_of(attributes["axes"])
            attributes |= {"axes": tuple(tuple(order.index(place) for place in each) for each in axes), "shape": shape}
        else:
            result = numbers(attributes["result"])
            attributes["result"] = tuple(result[axis] for axis in order)
        with self.rewriter.builder.within(self.rewriter.origin(maker, node), maker.span):
            turned = self.rewriter.builder.add(maker.op, maker.operands, maker.body, operand.name, **attributes)
        self.makers[turned] = self.rewriter.builder.nodes[-1]
        return turned, reshape(shape, index_map.shape)

    def _labelled(self, operand: Value) -> tuple[Value, tuple[int, ...]] | None:
        """Return what a transposition or repetition reads, and which of the view's axes its axes are."""
        maker = self.makers.get(operand)
        if maker is None or maker.op != "view":
            return None
        source = maker.operands[0]
        places = _places(maker.index_map, source.type.shape)
        return None if places is None else (source, places)

    def _map(self, node: Node, operands: list[Value]) -> None:
        body, operands, axes = self._without_ones(node.expr, operands, labels_of(node.attributes["axes"]))
        if isinstance(body, Argument) and operands[body.number].type == node.result.type:
            straight = axes[body.number] == tuple(range(len(node.result.type.shape)))
            if straight and node.result not in self.graph.outputs:
                self.rewriter.replace(node, operands[body.number])
                return
        if body is node.expr and (source := self._converted_back(node, operands)) is not None:
            self.rewriter.replace(node, source)
            return
        shape = numbers(node.attributes["shape"])
        if 1 in shape:
            self._map_anew(node, body, operands, axes, shape)
            return
        for place, operand in enumerate(operands):
            found = self._labelled(operand)
            if found is not None:
                operands[place], inner = found
                axes[place] = tuple(axes[place][axis] for axis in inner)
        self._keep(node, operands, {**node.attributes, "axes": tuple(axes)}, body)

    def _without_ones(
        self, body: Expr, operands: Sequence[Value], axes: Sequence[tuple[int, ...]]
    ) -> tuple[Expr, list[Value], list[tuple[int, ...]]]:
        """Leave out factors that are 1 everywhere, as the derivative of a sum is: no array of ones is made."""
        ones = [place for place, operand in enumerate(operands) if self._is_one(operand)]
        if not ones:
            return body, list(operands), list(axes)
        literals: dict[int, Expr] = {place: _one(operands[place].type.dtype) for place in ones}
        body = _without_factor_one(substitute(body, literals))
        used = arguments(body)
        renumbered: dict[int, Expr] = {n: Argument(new, operands[n].type.dtype) for new, n in enumerate(used)}
        return substitute(body, renumbered), [operands[n] for n in used], [axes[n] for n in used]

    def _is_one(self, value: Value) -> bool:
        maker = self.makers.get(value)
        if maker is None or maker.op != "map" or maker.operands:
            return False
        return _without_factor_one(maker.expr) == _one(value.type.dtype)

    def _converted_back(self, node: Node, operands: Sequence[Value]) -> Value | None:
        """Return what a conversion to a shorter float is of, where that was only widened before."""
        wide = _conversion(node)
        maker = self.makers.get(operands[0]) if wide is not None and node.result not in self.graph.outputs else None
        if maker is None or maker.op != "map" or _conversion(maker) is None:
            return None
        (source,) = maker.operands
        short = source.type.dtype
        fits = short == node.result.type.dtype and short.is_float and short.bits < operands[0].type.dtype.bits
        return source if fits and operands[0].type.dtype.is_float and not short.is_storage else None

    def _map_anew(
        self, node: Node, body: Expr, operands: Sequence[Value], axes: Sequence[tuple[int, ...]], shape: Sequence[int]
    ) -> None:
        """Let a map stand for a node: without its axes of extent 1, which a view puts back."""
        kept = [axis for axis, extent in enumerate(shape) if extent != 1]
        small = tuple(shape[axis] for axis in kept)
        builder = self.rewriter.builder
        with builder.within(self.rewriter.origin(node), node.span):
            squeezed = [self._squeezed(operand) for operand in operands]
            places = tuple(tuple(kept.index(axis) for axis in each if axis in kept) for each in axes)
            key = ("map", tuple(squeezed), (("axes", places), ("shape", small)), body)
            made = self.seen.get(key)
            if made is None:
                made = self.seen[key] = builder.map(body, squeezed, places, small, node.result.name)
                self.makers[made] = builder.nodes[-1]
            self._put_back(node, made)

    def _viewed(self, operand: Value, index_map: IndexMap) -> Value:
        """Return a view of a value, or of what that is itself a view of."""
        maker = self.makers.get(operand)
        if maker is not None and maker.op == "view":
            together = _together(index_map, maker.index_map, maker.operands[0].type.shape)
            if together is not None:
                operand, index_map = maker.operands[0], together
        if index_map.is_identity(operand.type.shape):
            return operand
        key = ("view", (operand,), (), index_map)
        value = self.seen.get(key)
        if value is None:
            value = self.seen[key] = self.rewriter.builder.view(operand, index_map)
            self.makers[value] = self.rewriter.builder.nodes[-1]
        return value

    def _squeezed(self, operand: Value) -> Value:
        """Return a value without its axes of extent 1."""
        shape = operand.type.shape
        return self._viewed(operand, reshape(shape, [extent for extent in shape if extent != 1]))

    def _put_back(self, node: Node, made: Value) -> None:
        """Let a value without axes of extent 1 stand for the result of a node, which has them."""
        builder = self.rewriter.builder
        value = builder.view(made, reshape(made.type.shape, node.result.type.shape))
        if value is not made:
            self.makers[value] = builder.nodes[-1]
        self.rewriter.replace(node, value)

    def _multiply(self, node: Node, operands: Sequence[Value], labels: Sequence[tuple[int, ...]]) -> None:
        """Put a map in the place of a contraction that sums nothing; 0 is added, as there: what underflows is -0."""
        dtype, result = node.result.type.dtype, numbers(node.attributes["result"])
        axes = tuple(tuple(result.index(label) for label in mine) for mine in labels)
        sides = [cast(Argument(place, operand.type.dtype), dtype) for place, operand in enumerate(operands)]
        zero = Literal(_zero(dtype), dtype)
        body = apply("fma", *sides, zero) if dtype.is_float else apply("add", apply("mul", *sides), zero)
        self._map_anew(node, body, operands, axes, node.result.type.shape)

    def _contract(self, node: Node, operands: list[Value]) -> None:
        labels: list[tuple[int, ...]] = list(labels_of(node.attributes["labels"]))
        extents = {label: size for mine, operand in zip(labels, operands, strict=True)
                   for label, size in zip(mine, operand.type.shape, strict=True)}  # fmt: skip
        result = numbers(node.attributes["result"])
        units = {label for label, size in extents.items() if size == 1}
        sums = any(label not in result and label not in units for label in extents)
        if units and sums:
            builder = self.rewriter.builder
            with builder.within(self.rewriter.origin(node), node.span):
                squeezed = [self._squeezed(operand) for operand in operands]
                places = [tuple(label for label in mine if label not in units) for mine in labels]
                kept = tuple(label for label in result if label not in units)
                attributes = {**node.attributes, "labels": tuple(places), "result": kept}
                made = builder.add("contract", squeezed, None, node.result.name, **attributes)
                self.makers[made] = builder.nodes[-1]
                self._put_back(node, made)
            return
        alone = {label for label in units if label not in result}
        if node.attributes.get("compute") and set(extents) <= set(result):
            # One product an element, of operands that are rounded first: a sum of one product, which is a kernel.
            operands = [self._viewed(each, reshape(each.type.shape, (*each.type.shape, 1))) for each in operands]
            labels = [(*mine, 1 + max(extents, default=-1)) for mine in labels]
        if alone and not sums and not node.attributes.get("compute"):
            # One product an element.
            kept = [[axis for axis, label in enumerate(mine) if label not in alone] for mine in labels]
            operands = [
                self._viewed(each, reshape(each.type.shape, [each.type.shape[axis] for axis in axes]))
                for each, axes in zip(operands, kept, strict=True)
            ]
            labels = [tuple(mine[axis] for axis in axes) for mine, axes in zip(labels, kept, strict=True)]
        for place, operand in enumerate(operands):
            found = self._labelled(operand)
            # An axis that the view repeats and nothing sums is not the operand's any more; one that is summed is.
            if found is None or len(found[1]) < len(labels[place]):
                continue
            operands[place], inner = found
            labels[place] = tuple(labels[place][axis] for axis in inner)
        if not node.attributes.get("compute") and {*labels[0], *labels[1]} <= set(numbers(node.attributes["result"])):
            self._multiply(node, operands, labels)
            return
        self._keep(node, operands, {**node.attributes, "labels": tuple(labels)}, node.body)

    def _concat(self, node: Node, operands: list[Value]) -> None:
        """Join without the axes of extent 1 that are not joined along, so that what is joined may be fused with it."""
        shape, axis = node.result.type.shape, int(str(node.attributes["axis"]))
        kept = [place for place, extent in enumerate(shape) if extent != 1 or place == axis]
        if len(kept) == len(shape):
            self._keep(node, operands, node.attributes, node.body)
            return
        builder = self.rewriter.builder
        with builder.within(self.rewriter.origin(node), node.span):
            squeezed = [
                self._viewed(each, reshape(each.type.shape, [each.type.shape[place] for place in kept]))
                for each in operands
            ]
            made = builder.concat(squeezed, kept.index(axis))
            self.makers[made] = builder.nodes[-1]
            self._put_back(node, made)

    def _reduce(self, node: Node, operands: list[Value]) -> None:
        axes = numbers(node.attributes["axes"])
        shape = operands[0].type.shape
        if 1 in shape:
            kept = [axis for axis, extent in enumerate(shape) if extent != 1]
            removed = tuple(place for place, axis in enumerate(kept) if axis in axes)
            builder = self.rewriter.builder
            with builder.within(self.rewriter.origin(node), node.span):
                squeezed = self._squeezed(operands[0])
                if removed:
                    squeezed = builder.add("reduce", (squeezed,), None, "", **{**node.attributes, "axes": removed})
                    self.makers[squeezed] = builder.nodes[-1]
                self._put_back(node, squeezed)
            return
        found = self._labelled(operands[0])
        if found is not None and len(found[1]) == len(operands[0].type.shape):
            source, inner = found
            moved = tuple(sorted(inner.index(axis) for axis in axes))
            kept = [axis for axis in inner if axis not in axes]
            # Axes that are summed are one axis in row-major order, so their order counts; so does that of the rest.
            in_order = [inner[axis] for axis in moved] == list(axes)
            if kept == sorted(kept) and in_order:
                self._keep(node, [source], {**node.attributes, "axes": moved}, node.body)
                return
        self._keep(node, operands, node.attributes, node.body)


def _together(outer: IndexMap, inner: IndexMap, shape: Sequence[int]) -> IndexMap | None:
    """Return a view of a view of an operand of `shape` as one view; None where it is none."""
    together = compose(outer, inner)
    straight = is_reshape(inner, shape) and is_reshape(outer, inner.shape)
    return reshape(shape, outer.shape) if together is None and straight and nests(shape, outer.shape) else together


def _holds_numbers(dtype: DType) -> bool:
    return dtype != boolean and not dtype.is_storage


def _one(dtype: DType) -> Literal:
    return Literal(1.0 if dtype.is_float else 1, dtype)


def _without_factor_one(body: Expr) -> Expr:
    """Return a body without conversions of 1, and without factors that are 1: no bit changes."""

    def node(each: Apply, *operands: Expr) -> Expr:
        if each.opcode == "cast" and operands[0] == _one(operands[0].dtype) and _holds_numbers(each.dtype):
            return _one(each.dtype)
        factors = operands if each.opcode == "mul" else ()
        for factor, other in zip(factors, factors[::-1], strict=True):
            if factor == _one(factor.dtype):
                return other
        return Apply(each.opcode, operands, each.dtype, each.predicate)

    return typing.cast("Expr", fold(body, lambda leaf: leaf, node))


def _conversion(node: Node) -> Expr | None:
    """Return the body of a map that converts its only operand, element by element, and does nothing else."""
    body = node.expr
    if len(node.operands) != 1 or not isinstance(body, Apply) or body.opcode != "cast":
        return None
    straight = labels_of(node.attributes["axes"])[0] == tuple(range(len(node.result.type.shape)))
    return body if straight and isinstance(body.operands[0], Argument) else None


def _lengthens(body: Expr) -> bool:
    """Return whether a body does nothing but convert a float to a longer one."""
    if not isinstance(body, Apply) or body.opcode != "cast" or not isinstance(body.operands[0], Argument):
        return False
    before, after = body.operands[0].dtype, body.dtype
    return before.is_float and after.is_float and before.bits < after.bits


def _zero(dtype: DType) -> Number:
    return 0.0 if dtype.is_float else 0


def _places(index_map: IndexMap, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return which axes of a view those of its operand are: for transpositions and repetitions, else None."""
    places: list[int] = []
    for affine, size in zip(index_map.axes, shape, strict=True):
        axis = affine.axis
        if axis is None or index_map.shape[axis] != size or axis in places:
            return None
        places.append(axis)
    return tuple(places)

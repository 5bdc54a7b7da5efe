"""Arithmetic of lane code: each operation once as a scalar where all lanes of a warp agree, else on vectors of 32."""

from collections.abc import Callable
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES
from tessera.lowering.analysis.ir_tree import Node
from tessera.lowering.base.emit import required
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.vectors import Lane, Linear, Prefix, Scalar, Vector
from tessera.lowering.cpu.tile.elementwise import emit_elementwise

# signed comparisons of base + lane with a bound: (the bound itself is below it, the result is negated)
_ORDER: Final = {2: (False, False), 3: (True, False), 4: (True, True), 5: (False, True)}
_MIRRORED: Final = {2: 4, 3: 5, 4: 2, 5: 3}


def arithmetic(code: LaneContext, node: Node) -> None:
    """Emit an `arith` or `math` operation on scalars (or a `select` of buffers) and define its result."""
    special = _SPECIAL.get(node.name)
    lane = special(code, node) if special is not None else None
    code.define(node.results[0], _general(code, node) if lane is None else lane)


def _general(code: LaneContext, node: Node) -> Lane:
    shape = code.shape(node.results[0])
    widen, lanes = (code.vector, LANES) if shape.kind == "varying" else (code.scalar, 0)
    operands = [code.from_bits(widen(v), v.type) for v in node.operands]
    return code.lane_of(code.to_bits(emit_elementwise(code.emit, node.op, operands, lanes)), shape)


def below(code: LaneContext, base: ir.Value, bound: ir.Value, *, safe: bool, negated: bool = False) -> Prefix:
    """Return the lanes l with base + l < bound (the others, when `negated`); `safe`: bound - base is in range."""
    vectors = code.vectors
    key = ("count", base, bound)
    count = vectors.scope.reuse(key)
    if count is None:
        difference = vectors.integer("subi", bound, base) if safe else saturating(code, "ssub", bound, base)
        count = vectors.scope.made[key] = vectors.clamp(difference)
    return Prefix(count, negated, frozenset({(base, bound)}))


def saturating(code: LaneContext, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a + b` ("sadd") or `a - b` ("ssub") of i64 scalars, kept in range."""
    attributes = {
        "intrin": f'"llvm.{name}.sat.i64"',
        "op_bundle_sizes": "array<i32>",
        "operandSegmentSizes": "array<i32: 2, 0>",
    }
    return code.emit.value("llvm.call_intrinsic", [a, b], "i64", attributes)


def _constant(code: LaneContext, node: Node) -> Lane:
    attribute, kind = node.op.attributes["value"], node.results[0].type
    key = (str(attribute), code.vectors.text(kind))

    def make() -> ir.Value:
        return code.to_bits(code.emit.value("arith.constant", (), kind, {"value": attribute}))

    return Scalar(code.vectors.at_top(key, make))


def _compare(code: LaneContext, node: Node) -> Lane | None:
    """Lane number against a bound: the lanes that satisfy it are the first ones of the warp, or the last ones."""
    known = code.shape(node.results[0]).known
    if known is not None:
        return Scalar(code.vectors.constant(known, "i1"))
    predicate = node.number("predicate") or 0
    left, right = node.operands
    a, b = code.lane(left), code.lane(right)
    if isinstance(a, Scalar):
        a, b, left, right = b, a, right, left
        predicate = _MIRRORED.get(predicate, predicate)
    if predicate not in _ORDER or code.element(left) != "i64":
        return None
    if not isinstance(a, Linear) or a.stride != 1 or not isinstance(b, Scalar):
        return None
    included, negated = _ORDER[predicate]
    safe = code.shape(left).natural and code.shape(right).natural
    bound = b.value
    if included:
        bound = saturating(code, "sadd", bound, code.vectors.constant(1, "i64"))
    return below(code, a.base, bound, safe=safe, negated=negated)


def _select(code: LaneContext, node: Node) -> Lane | None:
    condition = code.shape(node.operands[0])
    if condition.known is not None:
        return code.lane(node.operands[1 if condition.known else 2])
    shape = code.shape(node.results[0])
    widen = code.vector if shape.kind == "varying" else code.scalar
    chosen = code.scalar(node.operands[0]) if condition.scalar else code.vector(node.operands[0])
    return code.lane_of(code.vectors.select(chosen, *(widen(v) for v in node.operands[1:])), shape)


def _and(code: LaneContext, node: Node) -> Lane | None:
    """`and` of bools: two prefixes give the shorter one."""
    a, b = (code.lane(v) for v in node.operands)
    if isinstance(a, Scalar):
        a, b = b, a
    if not isinstance(a, Prefix) or a.negated:
        return None
    vectors = code.vectors
    if isinstance(b, Prefix) and not b.negated:
        count = vectors.integer("minsi", a.count, b.count)
        return Prefix(count, facts=a.facts | b.facts, exact=a.exact and b.exact)
    if isinstance(b, Scalar):
        count = vectors.select(b.value, a.count, vectors.constant(0, "i64"))
        return Prefix(count, facts=a.facts, exact=False)
    return None


def _not(code: LaneContext, node: Node) -> Lane | None:
    """`xor` of a prefix with true: the other lanes."""
    a = code.lane(node.operands[0])
    if isinstance(a, Prefix) and code.shape(node.operands[1]).known in (1, -1):
        return Prefix(a.count, not a.negated, a.facts, a.exact)
    return None


def _divide(code: LaneContext, node: Node) -> Lane | None:
    """`lane // n` and `lane % n`, which no vector instruction divides: one scalar division a warp.

    before: ``%q = divui %lane, %n`` on 32 elements
    after:  ``q, r = divui, remui %base, %n``, and lane l is ``(l - (n - r)) // n + 1`` turns on, from lane n - r on: of
            numbers below 32, which f32 divides exactly
    """
    (number, divisor), result = node.operands, node.results[0]
    a, b = code.lane(number), code.lane(divisor)
    if code.shape(result).kind != "varying" or code.element(result) != "i64" or not code.shape(number).natural:
        return None
    if not isinstance(a, Linear) or a.stride != 1 or not isinstance(b, Scalar):
        return None
    scope = code.vectors.scope
    keys = [("divided", part, a.base, b.value) for part in ("quotient", "remainder")]
    if scope.reuse(keys[0]) is None:
        scope.made.update(zip(keys, _divided(code, a.base, b.value), strict=True))
    return Vector(required(scope.reuse(keys[node.name == "arith.remui"])))


def _divided(code: LaneContext, base: ir.Value, divisor: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder of base + lane, which is below 2**63, by a number from 1 on."""
    vectors = code.vectors
    ints, floats, longs = vectors.wide("i32"), vectors.wide("f32"), vectors.wide("i64")
    first, rest = vectors.integer("divui", base, divisor), vectors.integer("remui", base, divisor)
    most = vectors.constant(LANES, "i64")
    gap = vectors.integer("minui", vectors.integer("subi", divisor, rest), most)
    turn = vectors.op("arith.uitofp", [vectors.integer("minui", divisor, most)], "f32")
    beyond = vectors.op("arith.trunci", [gap], "i32")
    beyond = vectors.op("arith.subi", [vectors.iota("i32"), vectors.splat(beyond)], ints)
    wraps = vectors.op("arith.sitofp", [beyond], floats)
    wraps = vectors.op("arith.divf", [wraps, vectors.splat(turn)], floats)
    wraps = vectors.op("arith.fptosi", [wraps], ints)
    wraps = vectors.op("arith.addi", [wraps, vectors.constant(1, ints)], ints)
    before = vectors.compare("slt", beyond, vectors.constant(0, ints), vectors.wide("i1"))
    wraps = vectors.select(before, vectors.constant(0, ints), wraps)
    wraps = vectors.op("arith.extui", [wraps], longs)
    passed = vectors.op("arith.muli", [wraps, vectors.splat(divisor)], longs)
    along = vectors.op("arith.addi", [vectors.splat(rest), vectors.iota("i64")], longs)
    quotient = vectors.op("arith.addi", [vectors.splat(first), wraps], longs)
    return quotient, vectors.op("arith.subi", [along, passed], longs)


_SPECIAL: Final[dict[str, Callable[[LaneContext, Node], Lane | None]]] = {
    "arith.constant": _constant,
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.divui": _divide,
    "arith.remui": _divide,
    "arith.andi": _and,
    "arith.xori": _not,
}

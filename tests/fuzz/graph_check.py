"""Run one graph on the oracle and on a target: do both give the same values, within what its conditioning allows?"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from fuzz.check import Outcome, same_bits
from fuzz.graphs import GraphCase
from tessera.core.base.dtypes import DType, f32
from tessera.core.errors.base import TesseraError
from tessera.core.graph.expr import Apply, walk
from tessera.core.graph.graph import Graph, Node
from tessera.core.graph.verify import verify
from tessera.core.schedule.plan import CASCADE, PRODUCT, Plan
from tessera.core.settings import overridden
from tessera.graphs.executable import Executable
from tessera.kernels.options import Options
from tessera.lowering.autodiff.in_f64 import in_f64
from tessera.lowering.graph.simplify import simplify
from tessera.runtime.interpret.graph import evaluate, evaluate_node
from tessera.runtime.interpret.rounding import Numbers
from tessera.session.session import resolve_target

ROUNDED: Final = frozenset({"add", "sub", "mul", "div", "sqrt", "neg", "abs", "min", "max", "floordiv", "mod", "and", "or",
                            "xor", "not", "cmp", "select", "cast", "shl", "shr", "floor", "ceil"})  # fmt: skip
"""Operations that are exact or rounded correctly: every target has the same bits."""
_SAMPLES: Final = 4
_AMPLITUDE: Final = 4.0
_FACTOR: Final = 4.0
_EXACT_LIMIT: Final = 2.0**22


def check_graph(case: GraphCase, target: str) -> Outcome:
    """Compare the passes and `target` with the oracle, on the graph as it was captured."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _compared(case, target)
    except TesseraError as mistake:
        kind = "fails" if mistake.code == "TSR-E900" else "refused"
        return Outcome(kind, f"{mistake.code} {str(mistake).splitlines()[0]}")
    except Exception as error:  # noqa: BLE001 - what is no TesseraError is a finding
        return Outcome("fails", f"{type(error).__name__}: {error}")


def compile_graph(case: GraphCase, target: str) -> Outcome:
    """Compile every kernel of a graph for a target that needs no device here."""
    try:
        function, _ = case.captured()
        function.executable.kernels(resolve_target(target))
    except TesseraError as mistake:
        kind = "limit" if mistake.code.startswith(("TSR-E7", "TSR-E6", "TSR-E8")) else "fails"
        return Outcome(kind, f"{mistake.code} {str(mistake).splitlines()[0]}")
    except Exception as error:  # noqa: BLE001 - what is no TesseraError is a finding
        return Outcome("fails", f"{type(error).__name__}: {error}")
    return Outcome("agrees")


def _compared(case: GraphCase, target: str) -> Outcome:
    function, graph = case.captured()
    executable, given = function.executable, case.arguments()
    with overridden(target=target):
        return compare(graph, executable, given, function, target)


def check_built(graph: Graph, given: Sequence[Numbers], target: str) -> Outcome:
    """Compare the passes and `target` with the oracle, on a graph that was built node by node."""
    try:
        executable = Executable(graph, Options(target=target))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compare(graph, executable, given, executable, target)
    except Exception as error:  # noqa: BLE001 - it is well formed: every refusal is a finding
        return Outcome("fails", f"{type(error).__name__}: {error}")


def compare(
    graph: Graph, executable: Executable, given: Sequence[Numbers], run: Callable[..., object], target: str
) -> Outcome:
    """Compare what the passes make of a graph, and what `run` computes, with the oracle."""
    plain = [np.array(each, order="C") for each in given]
    wanted = evaluate(graph, plain)
    simple = simplify(graph)
    verify(simple)
    for name, made in (("simplify", simple), ("the passes", executable.graph)):
        outcome = _same(f"{name}: ", evaluate(made, plain), wanted)
        if outcome is not None:
            return outcome
    results = run(*given)
    assert isinstance(results, tuple)
    found = [np.asarray(each) for each in cast("tuple[object, ...]", results)]
    if not all(same_bits(np.atleast_1d(a), np.atleast_1d(b)).all() for a, b in zip(given, plain, strict=True)):
        return Outcome("differs", "an argument was written")
    for place, array in enumerate(found):
        if any(np.shares_memory(array, other) for other in (*given, *found[:place])):
            return Outcome("differs", f"output {place} lies in memory of another array")
    return agreed(graph, executable.plan, plain, found, target)


def agreed(
    graph: Graph, plan: Plan, inputs: Sequence[Numbers], found: Sequence[Numbers], target: str, *, cut: bool = False
) -> Outcome:
    """Compare results with the oracle's: in bits where these are fixed, else within what the conditioning allows.

    cut: sums may be cut over a mesh, and the plan is that of one device
    """
    wanted = evaluate(graph, inputs)
    ordered = not cut and not any(group.kind in (CASCADE, PRODUCT) for group in plan.groups)
    if _exact(graph, inputs, ordered=ordered):
        return _same(f"{target}: ", found, wanted) or Outcome("agrees", "bits")
    return _close(graph, plan, inputs, found, wanted, target)


def _same(name: str, found: Sequence[Numbers], wanted: Sequence[Numbers]) -> Outcome | None:
    """What differs in bits; None where nothing does."""
    for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return Outcome("differs", f"{name}output {number}: {a.dtype} {a.shape}, here {b.dtype} {b.shape}")
        wrong = np.argwhere(~same_bits(np.atleast_1d(a), np.atleast_1d(b)))
        if len(wrong):
            return _told(f"{name}output {number}", np.atleast_1d(a), np.atleast_1d(b), wrong)
    return None


def _told(name: str, wanted: Numbers, found: Numbers, wrong: Numbers) -> Outcome:
    place = tuple(int(i) for i in wrong[0])
    text = f"{name}{list(place)}: oracle {wanted[place]!r}, here {found[place]!r}, {len(wrong)} of {wanted.size}"
    return Outcome("differs", text)


# -- graphs whose bits are fixed ----------------------------------------------------------------------------------


def _exact(graph: Graph, inputs: Sequence[Numbers], *, ordered: bool) -> bool:
    """Whether every target must have the oracle's bits: sums have the order of the oracle, or no sum is rounded."""
    if any(isinstance(each, Apply) and each.opcode not in ROUNDED
           for node in graph.nodes if node.op == "map" for each in walk(node.expr)):  # fmt: skip
        return False
    if ordered:
        return True
    wide = in_f64(graph)
    values = dict(zip(graph.inputs, inputs, strict=True))
    others = dict(zip(wide.inputs, (_widened(each) for each in inputs), strict=True))
    for node, double in zip(graph.nodes, wide.nodes, strict=True):
        operands = [values[operand] for operand in node.operands]
        (values[node.result],) = evaluate_node(node, operands)
        (others[double.result],) = evaluate_node(double, [others[operand] for operand in double.operands])
        a, b = values[node.result], others[double.result]
        if not np.array_equal(a.astype(b.dtype), b):
            return False
        if node.op in ("contract", "reduce") and not _no_rounding(node, operands):
            return False
    return True


def _no_rounding(node: Node, operands: Sequence[Numbers]) -> bool:
    """Whether sums of whole numbers stay small enough for every order of adding to be exact."""
    if not node.result.type.dtype.is_float:
        return True
    floats = [np.abs(each.astype(np.float64)) for each in operands]
    if any(np.any(each * 4 != np.round(each * 4)) for each in floats):
        return False
    bound = math.prod(float(each.max(initial=0.0)) for each in floats)
    terms = max(1, max((each.size for each in floats), default=1))
    return bound * terms < _EXACT_LIMIT


def _widened(x: Numbers) -> Numbers:
    return x.astype(np.float64) if x.dtype.kind not in "biu" else x


# -- graphs whose rounding is free --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    """What may differ.  value: the result in f64; spread: how far small errors everywhere move it; steady: where that
    is known"""

    value: Numbers
    spread: Numbers
    steady: Numbers


def _close(
    graph: Graph,
    plan: Plan,
    inputs: Sequence[Numbers],
    found: Sequence[Numbers],
    wanted: Sequence[Numbers],
    target: str,
) -> Outcome:
    bits = True
    cancels = any(group.kind == CASCADE for group in plan.groups)
    ordinary = all(bool(_finite(each).all()) for each in inputs)
    clean = ordinary and _all_finite(graph, inputs)
    for number, (scale, a, b) in enumerate(zip(_scales(graph, inputs), wanted, found, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return Outcome("differs", f"{target}: output {number}: {a.dtype} {a.shape}, here {b.dtype} {b.shape}")
        bits &= bool(same_bits(np.atleast_1d(a), np.atleast_1d(b)).all())
        wrong = np.atleast_1d(_wrong(scale, a, b))
        if cancels:
            wrong &= np.atleast_1d(~_cancelled(a, b, ordinary=ordinary))
            wrong &= clean or a.dtype.kind not in "biu"
        wrong = np.argwhere(wrong)
        if len(wrong):
            return _told(f"{target}: output {number}", np.atleast_1d(a), np.atleast_1d(b), wrong)
    return Outcome("agrees", ("cascade, " if cancels else "") + ("bits" if bits else "close"))


def _cancelled(wanted: Numbers, found: Numbers, *, ordinary: bool) -> Numbers:
    """Where the algebra of a cascade may have another result that is no number, or a number instead.

    Nothing over nothing is 0 there, an overflow on the way may be gone; and an infinite argument is a maximum that
    infinities cannot be compared with.
    """
    return ~_finite(wanted) & (_finite(found) if ordinary else (found == 0) | np.isnan(_widened(found)))


def _finite(x: Numbers) -> Numbers:
    return np.isfinite(_widened(x))


def _all_finite(graph: Graph, inputs: Sequence[Numbers]) -> bool:
    found: list[bool] = []
    evaluate(graph, inputs, lambda _, results: found.extend(bool(_finite(each).all()) for each in results))
    return all(found)


def _wrong(scale: _Scale, wanted: Numbers, found: Numbers) -> Numbers:
    """Where a result is neither what the oracle has, within rounding, nor where rounding decides everything."""
    if wanted.dtype.kind in "biu":
        return scale.steady & (wanted == scale.value) & (wanted != found)
    a, b = wanted.astype(np.float64), found.astype(np.float64)
    info = _info(wanted.dtype)
    both = np.isfinite(a) & np.isfinite(scale.value)
    allowed = _FACTOR * (scale.spread + np.abs(a - scale.value) + info[0] * np.abs(a)) + 4 * info[1]
    # As far from one another as from 0: a denominator that cancels may be 0 as well, and the quotient infinite.
    lost = _FACTOR * scale.spread >= np.abs(scale.value)
    far = scale.steady & both & ~(np.abs(a - b) <= allowed) & (np.isfinite(b) | ~lost)
    # Not finite: the oracle, f64 and every disturbed run have the same infinity, or NaN.
    agreed = scale.steady & ~both & ((a == scale.value) | (np.isnan(a) & np.isnan(scale.value)))
    return far | (agreed & ~((a == b) | (np.isnan(a) & np.isnan(b))))


def _info(dtype: np.dtype) -> tuple[float, float]:
    """The relative distance of numbers, and the smallest one."""
    if dtype.itemsize == 2 and dtype.kind != "f":
        return 2.0**-7, 2.0**-133
    info = np.finfo(dtype)
    return float(info.eps), float(info.smallest_subnormal)


def _scales(graph: Graph, inputs: Sequence[Numbers]) -> list[_Scale]:
    """How far each output moves when every value is off by a few of its dtype's roundings."""
    wide = in_f64(graph)
    doubles = [_widened(each) for each in inputs]
    exact = evaluate(wide, doubles)
    runs = [_disturbed(graph, wide, doubles, np.random.default_rng(seed)) for seed in range(_SAMPLES)]
    found: list[_Scale] = []
    for number, value in enumerate(exact):
        others = [run[number] for run in runs]
        if value.dtype.kind in "biu":
            steady = np.all([other == value for other in others], axis=0)
            found.append(_Scale(value, np.zeros(value.shape), np.asarray(steady)))
            continue
        same = [np.isfinite(other) == np.isfinite(value) for other in others]
        kinds = [np.isfinite(value) | (other == value) | (np.isnan(other) & np.isnan(value)) for other in others]
        spread = np.max([np.abs(other - value) for other in others], axis=0)
        steady = np.all([*same, *kinds], axis=0)
        found.append(_Scale(value, np.where(steady, np.nan_to_num(spread, nan=0.0), 0.0), np.asarray(steady)))
    return found


def _disturbed(graph: Graph, wide: Graph, inputs: Sequence[Numbers], source: np.random.Generator) -> list[Numbers]:
    values = dict(zip(wide.inputs, inputs, strict=True))
    for node, double in zip(graph.nodes, wide.nodes, strict=True):
        operands = [values[operand] for operand in double.operands]
        if node.op in ("contract", "reduce", "map", "scatter_add"):
            noise = _noise(node, source)
            operands = [noise(x, operand.type.dtype) for x, operand in zip(operands, node.operands, strict=True)]
            (made,) = evaluate_node(double, operands)
            values[double.result] = noise(made, node.result.type.dtype)
        else:
            (values[double.result],) = evaluate_node(double, operands)
    return [values[value] for value in wide.outputs]


def _noise(node: Node, source: np.random.Generator) -> Callable[[Numbers, DType], Numbers]:
    """Errors of a few roundings, where the node rounds."""
    moves = node.op == "map" and not any(isinstance(each, Apply) and each.opcode not in ("select", "neg", "abs", "cmp")
                                         for each in walk(node.expr))  # fmt: skip
    extremes = node.op == "reduce" and node.attributes["kind"] != "sum"

    def disturb(x: Numbers, dtype: DType) -> Numbers:
        if not dtype.is_float or moves or extremes:
            return x
        relative = _info(dtype.numpy)[0]
        if node.op == "contract" and node.attributes.get("compute") and dtype == f32:
            relative = 2.0**-10
        return x * (1 + _AMPLITUDE * relative * source.uniform(-1, 1, x.shape))

    return disturb

"""How values vary: read off small functions of Tile IR, each line naming what its value must be."""

import itertools

import pytest
from hypothesis import assume, given, settings

from lowering.analysis.scalar_programs import LANES as SIZE
from lowering.analysis.scalar_programs import Execution, WrappedError, scalar_programs
from support import programs
from support.mlir import parse
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.tile.dialect import shared_context
from tessera.lowering.analysis.divergence import LANES, DivergenceAnalysis, id_divergence
from tessera.lowering.analysis.ir_tree import read_function
from tessera.lowering.analysis.memory_accesses import group_of
from tessera.lowering.base.ir_walk import body, kernel, operations
from tessera.lowering.tile.to_tile import to_tile

IDS = """
  %lane = "tessera.id"() {of = "lane"} : () -> i64
  %warp = "tessera.id"() {of = "warp"} : () -> i64
  %group = "tessera.id"() {of = "group"} : () -> i64
  %n = "tessera.dim"() {symbol = "n"} : () -> i64
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c3 = arith.constant 3 : i64
  %c64 = arith.constant 64 : i64
"""


def shapes_of(body: str, group: tuple[int, ...] | None = (128,)) -> dict[str, str]:
    """The shape of each operation's first result, by the result's name: `uniform`, `linear 3` or `varying`."""
    text = f"func.func @f(%x: memref<?xf32>, %s: f32) {{{IDS}{body}\n  return\n}}"
    names = [
        line.split("=")[0].strip().lstrip("%").split(":")[0] for line in text.split("\n") if line.strip()[:1] == "%"
    ]
    found: dict[str, str] = {}
    with shared_context():
        module = ir.Module.parse(text)
        tree = read_function(module.body.operations[0].operation)
        shapes = DivergenceAnalysis(tree, group)
        results = [inner for node in tree.nodes for inner in node.walk() if inner.results]
        for name, node in zip(names, results, strict=True):
            shape = shapes.of(node.results[0])
            found[name] = f"linear {shape.stride}" if shape.kind == "linear" else shape.kind
    return found


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("%v = arith.addi %lane, %n : i64", "linear 1"),
        ("%v = arith.muli %lane, %c3 : i64", "linear 3"),
        ("%v = arith.muli %lane, %n : i64", "varying"),
        ("%v = arith.subi %n, %lane : i64", "linear -1"),
        ("%v = arith.subi %lane, %lane : i64", "linear 0"),
        ("%v = arith.shli %lane, %c3 : i64", "linear 8"),
        ("%v = arith.divsi %lane, %c64 : i64", "linear 0"),
        ("%v = arith.remsi %lane, %c64 : i64", "linear 1"),
        ("%v = arith.remsi %lane, %c3 : i64", "varying"),
        ("%v = arith.addi %warp, %n : i64", "linear 0"),
        ("%v = arith.addi %group, %n : i64", "uniform"),
        ("%v = arith.cmpi slt, %lane, %n : i64", "varying"),
        ("%v = arith.cmpi slt, %lane, %c0 : i64", "uniform"),  # known: no lane has a negative number
        ("%v = arith.maxsi %lane, %n : i64", "varying"),
        ('%v = "tessera.read"(%x, %group) {cache = "", in_bounds = array<i1: false>} : (memref<?xf32>, i64) -> f32', "uniform"),
        ('%v = "tessera.read"(%x, %warp) {cache = "", in_bounds = array<i1: false>} : (memref<?xf32>, i64) -> f32', "linear 0"),
        ('%v = "tessera.read"(%x, %lane) {cache = "", in_bounds = array<i1: false>} : (memref<?xf32>, i64) -> f32', "varying"),
        ('%v = "tessera.shuffle"(%n, %lane) {mode = "xor", width = 32 : i64} : (i64, i64) -> i64', "uniform"),
    ],
)  # fmt: skip
def test_one_operation(line: str, shape: str):
    assert shapes_of("  " + line)["v"] == shape


def test_what_is_merged_under_a_varying_condition_varies():
    body = """
  %below = arith.cmpi slt, %lane, %c3 : i64
  %few = arith.cmpi slt, %n, %c3 : i64
  %a = scf.if %below -> (i64) { scf.yield %c0 : i64 } else { scf.yield %c1 : i64 }
  %b = scf.if %few -> (i64) { scf.yield %c0 : i64 } else { scf.yield %c1 : i64 }
  %c = scf.if %few -> (i64) { scf.yield %lane : i64 } else { scf.yield %lane : i64 }
  %first = arith.cmpi eq, %warp, %c0 : i64
  %d = scf.if %first -> (i64) { scf.yield %c0 : i64 } else { scf.yield %c1 : i64 }"""
    found = shapes_of(body)
    assert [found[name] for name in "abcd"] == ["varying", "uniform", "linear 1", "linear 0"]


def test_a_loop_of_varying_length_shares_its_index_but_not_its_result():
    body = """
  %r = scf.for %k = %c0 to %lane step %c1 iter_args(%v = %c0) -> (i64) : i64 {
    %inside = arith.addi %v, %k : i64
    scf.yield %inside : i64
  }
  %u = scf.for %k = %lane to %n step %c64 iter_args(%v = %c0) -> (i64) : i64 {
    %moved = arith.addi %k, %c1 : i64
    scf.yield %c1 : i64
  }"""
    found = shapes_of(body)
    assert found["r"] == "varying"
    assert found["inside"] == "uniform"
    assert found["moved"] == "linear 1"


def test_a_carried_value_that_meets_a_varying_one_varies_from_the_start():
    body = """
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%v = %c0) -> (i64) : i64 {
    %before = arith.addi %v, %c1 : i64
    scf.yield %lane : i64
  }"""
    found = shapes_of(body)
    assert (found["before"], found["r"]) == ("varying", "varying")


def test_numbers_that_may_overflow_are_not_taken_to_be_positive():
    body = """
  %big = arith.constant 6364136223846793005 : i64
  %hash = arith.muli %lane, %big : i64
  %place = arith.remsi %hash, %c64 : i64
  %negative = arith.cmpi slt, %place, %c0 : i64"""
    assert shapes_of(body)["negative"] == "varying"


@pytest.mark.parametrize(
    ("axis", "group", "kind", "stride"),
    [
        (1, (8, 32), "linear", 1),
        (0, (8, 32), "linear", 0),
        (1, (8, 16), "varying", 0),
        (0, (8, 16), "varying", 0),
        (0, (8, 2, 16), "linear", 0),
        (1, (1, 256), "linear", 1),
        (0, (20,), "linear", 1),
        (1, (20, 1), "uniform", 0),
        (None, (4, 4, 4), "linear", 1),
    ],
)
def test_lanes_along_an_axis(axis: int | None, group: tuple[int, ...], kind: str, stride: int):
    shape = id_divergence("lane", axis, group)
    assert (shape.kind, shape.stride) == (kind, stride)
    assert shape.natural


def test_threads_of_groups_that_are_no_whole_warps_are_not_aligned():
    assert id_divergence("thread", None, (128,)).align == LANES
    assert id_divergence("thread", None, (40,)).align == 8


def analysed(program: Program, *, lane_tiles: bool) -> tuple[ir.Module, DivergenceAnalysis]:
    """The analysis of a program, as the CUDA target has it (`lane_tiles`) or the CPU target."""
    module = to_tile(program)
    function = kernel(module)
    return module, DivergenceAnalysis(read_function(function), group_of(function), lane_tiles=lane_tiles)


def test_operations_that_only_some_lanes_reach_are_divergent():
    module, found = analysed(programs.group_sum(), lane_tiles=True)
    assert [found.varies(op.results[0]) for op in operations(module, "tessera.id")] == [True, False, False]
    assert [found.is_divergent(op) for op in operations(module, "tessera.barrier")] == [False]
    assert [found.is_divergent(op) for op in operations(module, "tessera.reduce")] == [True]
    # The loop runs from the lane's own number: lanes leave it at different times.
    loop = operations(module, "scf.for")[0]
    assert found.varies(loop.results[0])
    assert not found.is_divergent(loop)
    assert found.is_divergent(list(body(loop).operations)[-1])


def test_a_tile_kernel_is_uniform():
    module, found = analysed(programs.matmul(), lane_tiles=True)
    inside = operations(module, "tessera.load", "tessera.dot", "tessera.store", "scf.for")
    assert len(inside) == 7
    assert all(found.is_uniform(op) for op in inside)


@pytest.mark.parametrize(("lane_tiles", "kind"), [(True, "varying"), (False, "uniform")])
def test_tiles_of_lanes_values(lane_tiles: bool, kind: str):
    text = f"func.func @f() {{{IDS}\n%t = tensor.splat %lane : tensor<4xi64>\nreturn\n}}"
    with shared_context():
        module = ir.Module.parse(text)
        shapes = DivergenceAnalysis(read_function(module.body.operations[0]), (128,), lane_tiles=lane_tiles)
        (splat,) = operations(module, "tensor.splat")
        assert shapes.of(splat.results[0]).kind == kind


@settings(max_examples=40, deadline=None)
@given(scalar_programs())
def test_lanes_agree_as_the_analysis_says(text: str):
    with shared_context():
        module = parse(text)
        run = Execution(kernel(module))
        found = DivergenceAnalysis(read_function(kernel(module)), (SIZE,))
        shapes = [found.of(value) for value in run.values]
        try:
            runs = list(run.traces((0, 1, 5, 31, 32, 33, 63)))
        except WrappedError:
            assume(condition=False)
            return
        for (group, extent), lanes in itertools.groupby(runs, lambda one: (one[0]["group"], one[0]["n"])):
            first: dict[tuple[object, int], tuple[int, int]] = {}
            for ids, trace in lanes:
                for key, number in trace.items():
                    shape = shapes[key[0]]
                    assert shape.known in (None, number), (group, extent, str(run.values[key[0]]))
                    assert shape.limit is None or 0 <= number <= shape.limit, str(run.values[key[0]])
                    if shape.kind == "varying":
                        continue
                    together = (key, 0 if shape.kind == "uniform" else ids["warp"])
                    lane, base = first.setdefault(together, (ids["lane"], number))
                    assert number - base == shape.stride * (ids["lane"] - lane), str(run.values[key[0]])

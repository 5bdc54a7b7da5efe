"""The dialect: what its verifiers refuse, and what upstream passes may do with its operations."""

import importlib
from typing import Any

import pytest

from support.mlir import function, parse
from tessera.core.mlir import ir
from tessera.core.tile import dialect
from tessera.lowering.base.passes import run_upstream

READ = '"tessera.read"(%x, %i) {cache = "", in_bounds = array<i1: false>} : (memref<?xf32>, i64) -> f32'
WRITE = '"tessera.write"(%x, %v, %i) {cache = "", in_bounds = array<i1: false>} : (memref<?xf32>, f32, i64) -> ()'
TILE = "tensor<4x8xf32>"
FLAGS = "in_bounds = array<i1: false, false>"
BLOCK = 'extents = array<i64: 4, 8>, dropped = array<i64>, cache = ""'


def names(module: ir.Module) -> list[str]:
    return [op.operation.name for op in module.body.operations[0].regions[0].blocks[0].operations]


def optimised(body: str, parameters: str = "%x: memref<?xf32>, %i: i64, %v: f32", results: str = "") -> list[str]:
    module = parse(function(body, parameters, results))
    run_upstream("builtin.module(func.func(cse,canonicalize,loop-invariant-code-motion))", module)
    return names(module)


def test_equal_reads_become_one():
    body = f"%a = {READ}\n%b = {READ}\n%c = arith.addf %a, %b : f32\nreturn %c : f32"
    assert optimised(body, results="-> f32") == ["tessera.read", "arith.addf", "func.return"]


@pytest.mark.parametrize(
    "between", [WRITE, '"tessera.barrier"() : () -> ()', '"tessera.group_sync"() {size = 32} : () -> ()']
)
def test_a_read_is_not_merged_across(between: str):
    body = f"%a = {READ}\n{between}\n%b = {READ}\n%c = arith.addf %a, %b : f32\nreturn %c : f32"
    kept = optimised(body, results="-> f32")
    assert kept.count("tessera.read") == 2
    assert kept[1] == between.split('"')[1]


def test_an_unused_read_is_dropped_and_a_write_is_kept():
    assert optimised(f"%a = {READ}\n{WRITE}\nreturn") == ["tessera.write", "func.return"]


def test_barriers_stay_where_they_are():
    barrier = '"tessera.barrier"() : () -> ()'
    assert optimised(f"{barrier}\n{barrier}\nreturn") == ["tessera.barrier", "tessera.barrier", "func.return"]


def test_buffers_are_never_merged_and_dropped_when_unused():
    alloc = '"tessera.alloc"() : () -> memref<4xf32, "shared">'
    use = (
        '"tessera.write"({}, %v, %i) {{cache = "", in_bounds = array<i1: false>}} : (memref<4xf32, "shared">, f32, i64)'
        " -> ()"
    )
    body = f"%a = {alloc}\n%b = {alloc}\n%unused = {alloc}\n{use.format('%a')}\n{use.format('%b')}\nreturn"
    assert optimised(body).count("tessera.alloc") == 2


def test_pure_operations_leave_loops_and_shuffles_do_not():
    body = """
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      scf.for %k = %zero to %i step %one : i64 {
        %n = "tessera.dim"() {symbol = "n"} : () -> i64
        %s = "tessera.shuffle"(%v, %n) {mode = "down", width = 32 : i64} : (f32, i64) -> f32
      }
      return"""
    module = parse(function(body, "%x: memref<?xf32>, %i: i64, %v: f32"))
    run_upstream("builtin.module(func.func(loop-invariant-code-motion))", module)
    assert names(module) == ["arith.constant", "arith.constant", "tessera.dim", "scf.for", "func.return"]
    loop = module.body.operations[0].regions[0].blocks[0].operations[3]
    assert [op.operation.name for op in loop.regions[0].blocks[0].operations] == ["tessera.shuffle", "scf.yield"]


PARAMETERS = (
    f"%A: memref<?x8xf32>, %i: i64, %a: {TILE}, %b: tensor<8x4xf32>, %s: f32, %v: tensor<4xi64>, %w: tensor<4x4xi64>"
)
ARRAY = "memref<?x8xf32>"
INSTRUCTION = f"({TILE}, tensor<8x4xf32>) -> tensor<4x4xf32>"
AT = f"({ARRAY}, i64, i64)"
# what is said, the operation, its operands, its attributes, its type
WRONG = [
    ("unknown kind 'lanes'", "id", "", 'of = "lanes"', "() -> i64"),
    ("axis must be 0, 1 or 2", "id", "", 'of = "lane", axis = 3 : i64', "() -> i64"),
    ("1 indices for 2 axes", "read", "%A, %i", f'cache = "", {FLAGS}', f"({ARRAY}, i64) -> f32"),
    ("f64 in a memory of f32", "read", "%A, %i, %i", f'cache = "", {FLAGS}', f"{AT} -> f64"),
    ("in_bounds must have one flag", "read", "%A, %i, %i", 'cache = "", in_bounds = array<i1: true>', f"{AT} -> f32"),
    ("are not the shape of tensor<8x4xf32>", "load", "%A, %i, %i", f"{BLOCK}, {FLAGS}", f"{AT} -> tensor<8x4xf32>"),
    (
        "extents must be positive, those of dropped axes 1", "load", "%A, %i, %i",
        f'extents = array<i64: 4, 8>, dropped = array<i64: 0>, cache = "", {FLAGS}', f"{AT} -> tensor<8xf32>",
    ),
    (
        "1 starts, 2 extents and 2 flags for 2 axes", "store", "%A, %a, %i", f"{BLOCK}, {FLAGS}",
        f"({ARRAY}, {TILE}, i64) -> ()",
    ),
    (
        "the destination must be a shared buffer", "copy", "%A, %A, %i, %i",
        f"extents = array<i64: 4, 8>, dropped = array<i64>, {FLAGS}", f"({ARRAY}, {ARRAY}, i64, i64) -> ()",
    ),
    ("must give a shared buffer", "alloc", "", "", "() -> memref<4xf32>"),
    ("every extent must be a number", "alloc", "", "", '() -> memref<?xf32, "shared">'),
    ("size must be positive", "group_sync", "", "size = 0 : i64", "() -> ()"),
    ("unknown mode 'left'", "shuffle", "%s, %i", 'mode = "left", width = 32 : i64', "(f32, i64) -> f32"),
    ("width 24 is not a power of two", "shuffle", "%s, %i", 'mode = "up", width = 24 : i64', "(f32, i64) -> f32"),
    ("must give an i64 tile of rank 1", "arange", "%i", "", "(i64) -> tensor<4xi32>"),
    ("[4, 8] does not broadcast to [4, 4]", "broadcast", "%a", "", f"({TILE}) -> tensor<4x4xf32>"),
    ("[4, 8] does not fit [5, 8]", "reshape", "%a", "", f"({TILE}) -> tensor<5x8xf32>"),
    ("[0, 0] is not a permutation", "transpose", "%a", "permutation = array<i64: 0, 0>", f"({TILE}) -> {TILE}"),
    ("permuted by [1, 0] is not [4, 8]", "transpose", "%a", "permutation = array<i64: 1, 0>", f"({TILE}) -> {TILE}"),
    ("kind must be one of", "reduce", "%a", 'kind = "mean"', f"({TILE}) -> f32"),
    ("axis 2 of a tile of rank 2", "reduce", "%a", 'kind = "sum", axis = 2 : i64', f"({TILE}) -> f32"),
    ("must be a tile of [4]", "reduce", "%a", 'kind = "sum", axis = 1 : i64', f"({TILE}) -> tensor<8xf32>"),
    ("the result must be the element type", "reduce", "%a", 'kind = "sum"', f"({TILE}) -> f64"),
    ("only of floats", "softmax", "%v", "axis = 0 : i64", "(tensor<4xi64>) -> tensor<4xi64>"),
    ("[4, 8] x [4, 8] -> [4, 8] do not agree", "dot", "%a, %a", "exact = false", f"({TILE}, {TILE}) -> {TILE}"),
    (
        "accumulator and result differ in type", "dot", "%a, %b, %b", "exact = false",
        f"({TILE}, tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>",
    ),
    ("unknown format 'bf16'", "dot", "%a, %b", 'exact = false, compute = "bf16"', INSTRUCTION),
    ("rounded factors in an exact product", "dot", "%a, %b", 'exact = true, compute = "tf32"', INSTRUCTION),
    (
        "factors of i64 are not rounded to tf32", "dot", "%w, %w", 'exact = false, compute = "tf32"',
        "(tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi64>",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "name", "operands", "attributes", "kind"), WRONG, ids=[f"{row[1]}-{n}" for n, row in enumerate(WRONG)]
)
def test_verifiers_name_the_place(message: str, name: str, operands: str, attributes: str, kind: str):
    result = "" if kind.endswith("-> ()") else "%r = "
    operation = f'{result}"tessera.{name}"({operands}) {{{attributes}}} : {kind}'
    with pytest.raises(ir.MLIRError) as caught:
        parse(function(f'{operation} loc("cell.py":12:3)\nreturn', PARAMETERS))
    (diagnostic,) = caught.value.error_diagnostics
    assert message in diagnostic.message
    assert str(diagnostic.location) == 'loc("cell.py":12:3)'


def test_text_round_trips():
    body = f"""
      %t = "tessera.load"(%A, %i, %i) {{{BLOCK}, {FLAGS}}} : (memref<?x8xf32>, i64, i64) -> {TILE}
      %d = "tessera.dot"(%t, %b) {{exact = true}} : ({TILE}, tensor<8x4xf32>) -> tensor<4x4xf32>
      %buffer = "tessera.alloc"() : () -> memref<4x8xf32, "shared.xor">
      "tessera.copy"(%buffer, %A, %i, %i) {{extents = array<i64: 4, 8>, dropped = array<i64>, {FLAGS}}}
        : (memref<4x8xf32, "shared.xor">, memref<?x8xf32>, i64, i64) -> ()
      %n = "tessera.reduce"(%d) {{kind = "max"}} : (tensor<4x4xf32>) -> f32
      return"""
    once = str(parse(function(body, PARAMETERS)))
    assert str(parse(once)) == once


def test_bools_live_in_bytes():
    body = '%r = "tessera.read"(%x, %i) {cache = "", in_bounds = array<i1: false>} : (memref<?xi8>, i64) -> i1\nreturn'
    assert parse(function(body, "%x: memref<?xi8>, %i: i64")).operation.verify()


def test_the_bindings_find_the_dialects_module():
    assert importlib.import_module("torch_mlir.dialects.tessera") is dialect


def test_the_shared_context_is_replaced_now_and_then(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dialect, "_uses", 0)
    monkeypatch.setattr(dialect, "_MAX_USES", 2)
    seen: list[Any] = []
    for _ in range(3):
        with dialect.shared_context() as context:
            seen.append(context)
    assert seen[0] is seen[1]
    assert seen[1] is not seen[2]

"""Tokens: who waits for whom."""

from support import programs
from support.tile_cases import control, shift
from support.tile_machine import lowered
from tessera.core.base.dtypes import f16
from tessera.core.program.program import Program
from tessera.lowering.cuda_tile.instructions import Instruction, TokenType, instructions_of


def memory_operations(program: Program) -> list[Instruction]:
    _, entry = lowered(program)
    return [op for op in instructions_of(entry.body) if op.name.startswith(("load", "store"))]


def token_of(op: Instruction):
    return next((v for v in op.operands if isinstance(v.type, TokenType)), None)


def test_what_is_only_read_needs_no_token():
    loads = [op for op in memory_operations(programs.matmul(16, 16, 16, f16)) if op.name == "load_view_tko"]
    assert [token_of(op) for op in loads] == [None, None]


def test_a_load_waits_for_the_store_before_it_and_a_store_for_every_load():
    load, store, second, *_ = memory_operations(shift())
    assert load.name == second.name == "load_ptr_tko"
    assert token_of(second) is store.results[0]
    waited = token_of(store)
    assert waited is not None
    assert waited is not load.results[1]  # joined with what was before it


def test_tokens_are_carried_through_loops_that_write():
    _, entry = lowered(control())
    (loop,) = [op for op in instructions_of(entry.body) if op.name == "loop"]
    carried = [v for v in loop.blocks[0].arguments if isinstance(v.type, TokenType)]
    assert len(carried) == 2
    last = memory_operations(control())[-1]
    assert token_of(last) is not None


def test_arrays_of_one_kind_may_be_one_array():
    """x and y of a copy: the load of x must not run after the store to y."""
    load, store = memory_operations(programs.tile_copy())
    assert token_of(load) is not None
    assert token_of(store) is not None


def test_a_matrix_that_is_only_multiplied_is_none_that_is_written():
    """A and B have the type of C; only C is loaded in the order of its stores."""
    a, b, c, store = memory_operations(programs.accumulate(16, 8, 16))
    assert [token_of(op) for op in (a, b)] == [None, None]
    assert token_of(c) is not None
    assert token_of(store) is not None
    loads = [op for op in memory_operations(programs.matmul(16, 16, 16)) if op.name == "load_view_tko"]
    assert [token_of(op) for op in loads] == [None, None]

"""Tile IR in tests: parse text, run passes, print."""

from collections.abc import Iterator

import pytest

from tessera.core.mlir import Index, ir
from tessera.core.program.program import Program
from tessera.core.tile.dialect import shared_context
from tessera.core.tile.records import listing_of_tile
from tessera.lowering.base.passes import Pass, run_passes
from tessera.lowering.tile.to_tile import to_tile


@pytest.fixture(autouse=True)
def mlir_context() -> Iterator[ir.Context]:
    """A context with the dialect, current in the test (import this name into a conftest.py)."""
    with shared_context() as context:
        yield context


def function(body: str, parameters: str = "", results: str = "") -> str:
    """The text of a module with one function around `body`."""
    return f"module {{ func.func @f({parameters}) {results} {{\n{body}\n}} }}"


def parse(text: str) -> ir.Module:
    return ir.Module.parse(text)


def defining_op(value: Index) -> ir.OpView:
    """Return the operation whose result `value` is."""
    assert isinstance(value, ir.Value)
    owner = value.owner
    assert not isinstance(owner, ir.Block)
    return owner


def plain_number(index: Index) -> int:
    """Return an index that was computed with plain numbers alone."""
    assert isinstance(index, int)
    return index


def shown(program: Program, *passes: Pass) -> str:
    """The Tile IR of `program` after `passes`, as people see it."""
    module = to_tile(program)
    run_passes(passes, module)
    return listing_of_tile(module, "", program).text


def lowered(program: Program, *passes: Pass) -> ir.Module:
    module = to_tile(program)
    run_passes(passes, module)
    return module

"""Columns beside SASS, and how its instructions are linked."""

from collections.abc import Callable

import numpy as np
import pytest
from ml_dtypes import bfloat16

from support.artifacts import scale_artifact
from tessera.core.base.source import Span
from tessera.ops.tiles.attention import attention_forward
from tessera.ops.tiles.matrix import matrix_product
from tessera.ops.tiles.rows import softmax_rows
from tessera.session.compiled import Compiled
from tessera.viz.ir.explorer_model import explorer_model
from tessera.viz.ir.machine_columns import SassMapping, addresses, machine_columns, sass_mapping
from tessera.viz.ir.panes import Pane, ViewLine

KERNEL, LINE = Span("cell.py", 1, 1, 9, 9), Span("cell.py", 4, 1, 4, 9)
TARGET = "cuda:sm_90a"


def gemm() -> Compiled:
    a = np.zeros((512, 512), bfloat16)
    return matrix_product.variant(BM=128, BN=128, BK=64).compile(a, a, a, target=TARGET)


def attention() -> Compiled:
    q = np.zeros((1, 2, 512, 64), bfloat16)
    return attention_forward.variant(BM=64, BN=64, CAUSAL=False).compile(q, q, q, q, 0.1, 1, target=TARGET)


def softmax() -> Compiled:
    x = np.zeros((64, 512), np.float32)
    return softmax_rows.compile(x, x.copy(), target=TARGET)


def test_instructions_are_counted_by_what_they_are_linked_to():
    lines = (
        ViewLine(".text.k:"),
        ViewLine("/*0000*/       LDC R1", spans=(KERNEL,)),
        ViewLine("/*0010*/       LDG R1", spans=(KERNEL,), ops=(4,)),
        ViewLine("/*0020*/       FADD R1", spans=(LINE,)),
        ViewLine("/*0030*/       NOP"),
    )
    pane = Pane("sass", "", lines)
    mapping = sass_mapping(pane, KERNEL)
    assert mapping == SassMapping(2, 1, 1)
    assert mapping.known == 0.75
    assert mapping.text == "4 instructions: 50.0% from your lines, 25.0% the compiler's own, 25.0% unknown"
    assert addresses(pane) == (None, ("k", 0), ("k", 16), ("k", 32), ("k", 48))
    assert sass_mapping(Pane("sass", "", ()), KERNEL).text == "no instructions"


def test_code_of_the_cpu_has_no_columns():
    assert machine_columns(Pane("asm", "", (ViewLine("ret"),)), scale_artifact()) == ()


@pytest.mark.parametrize(
    ("make", "least"), [(gemm, 0.5), (attention, 0.6), (softmax, 0.8)], ids=["gemm", "attention", "softmax"]
)
def test_nearly_all_instructions_of_shipped_kernels_are_linked_and_annotated(
    make: Callable[[], Compiled], least: float
):
    compiled = make()
    model = explorer_model(compiled.artifact, compiled.listings, compiled.passes)
    (number,) = (number for number, pane in enumerate(model.panes) if pane.level == "sass")
    pane = model.panes[number]
    mapping = sass_mapping(pane, compiled.artifact.span)
    assert mapping.known >= 0.98
    assert mapping.operations / mapping.total >= least
    assert model.remarks["sass"] == mapping.text
    live, control = model.details[number].columns
    places = [line for line, address in enumerate(addresses(pane)) if address is not None]
    # Padding behind the end is never run, and the disassembler says nothing of it.
    assert {pane.lines[line].text.split()[1] for line in places if control.cells[line] < 0} <= {"NOP"}
    assert sum(control.cells[line] >= 0 for line in places) >= 0.9 * len(places)
    # What the disassembler counts as live fits what the assembler says it allocated.
    assert max(int(kind.text) for kind in live.kinds) <= (compiled.artifact.resources.registers or 0)
    assert max(kind.bar for kind in live.kinds) == 1.0

"""Cache hints: the right instructions, and the same values."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from lowering.cuda.compare import agree, normal
from support import programs
from support.interpret_programs import Writer
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import DType, boolean, f16, f32, f64, i8, i64
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.program.program import Block, Domain, Op, Program
from tessera.core.targets import TARGETS, Target
from tessera.lowering.cuda.base.cache_hints import HINTS
from tessera.lowering.driver.compile import compile_program

ON_HARDWARE = True


def hinted(program: Program, load: str, store: str) -> Program:
    """The program with these hints on every read and write."""

    def block(old: Block) -> Block:
        return dataclasses.replace(old, ops=tuple(operation(op) for op in old.ops))

    def operation(op: Op) -> Op:
        found = {"read": load, "load": load, "write": store, "store": store}.get(op.opcode)
        hints = {} if found is None else {"cache": found}
        return dataclasses.replace(
            op, attributes={**op.attributes, **hints}, regions=tuple(block(r) for r in op.regions)
        )

    return dataclasses.replace(program, body=block(program.body))


@pytest.mark.parametrize(
    ("hint", "load", "store"),
    [
        ("streaming", "ld.global.cs.v4.b32", "st.global.cs.v4.b32"),
        ("l2", "ld.global.cg.v4.b32", "st.global.cg.v4.b32"),
        ("all", "ld.global.ca.v4.b32", "st.global.wb.v4.b32"),
        ("no_allocate", "ld.global.L1::no_allocate.v4.b32", "st.global.L1::no_allocate.v4.b32"),
        ("evict_last", "ld.global.L2::cache_hint.v4.b32", "st.global.L2::cache_hint.v4.b32"),
    ],
)
def test_what_each_hint_becomes(hint: str, load: str, store: str):
    artifact, _ = agree(hinted(programs.saxpy(), hint, hint), [normal(1500), normal(1500, seed=1), 0.3])
    text = ptx_of(artifact)
    assert text.count(load) == 2
    assert text.count(store) == 1
    if hint == "evict_last":
        assert "createpolicy.fractional.L2::evict_last.b64" in text


@pytest.mark.parametrize("dtype", [f64, f32, f16, i8, i64, boolean], ids=str)
@pytest.mark.parametrize("elements", [1, 4])
def test_every_dtype(dtype: DType, elements: int):
    b = Writer("hints")
    x, y = b.array("x", dtype, "n"), b.array("y", dtype, "n", mutable=True)
    i = b.id("thread")
    value: Any = b.read(x, i)
    b.write(y, value, i)
    program = dataclasses.replace(b.program(domain=Domain("lanes", ("n",))), options={"elements_per_thread": elements})
    source = (np.arange(1300) % 5 > 2) if dtype == boolean else (normal(1300) * 50).astype(dtype.numpy)
    target = np.zeros(1300, dtype.numpy)
    agree(hinted(program, "streaming", "evict_first"), [source, target])


@pytest.mark.parametrize("arch", TARGETS["cuda"].architectures)
def test_ptxas_takes_every_hint(arch: str):
    """One kernel with all of them; what they become in SASS is ptxas's matter."""
    b = Writer("every")
    i = b.id("thread")
    for hint in HINTS:
        x, y = b.array(f"x_{hint}", f32, "n"), b.array(f"y_{hint}", f32, "n", mutable=True)
        value = b.read(x, i)
        b.blocks[-1][-1] = dataclasses.replace(b.blocks[-1][-1], attributes={"cache": hint})
        b.write(y, value, i)
        b.blocks[-1][-1] = dataclasses.replace(b.blocks[-1][-1], attributes={"cache": hint})
    program = b.program(domain=Domain("lanes", ("n",)))
    artifact = compile_program(program, Target("cuda", arch), observe=False).artifact
    assert artifact.resources.registers


def test_an_unknown_hint_lists_the_known():
    with pytest.raises(NotOnCuda, match="'quickly'") as caught:
        compile_ptx(hinted(programs.saxpy(), "quickly", ""))
    assert "streaming" in caught.value.hint


@pytest.mark.parametrize("dtype", [f32, f16], ids=str)
@pytest.mark.parametrize("step", [128, 96])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tiles_are_loaded_and_stored_with_hints(arch: str, step: int, dtype: DType):
    """Predicated at the edge of the array; ptxas takes what is written."""
    for hint, load, store in (
        ("streaming", ".cs", ".cs"),
        ("all", ".ca", ".wb"),
        ("evict_last", ".L2::cache_hint", ".L2::cache_hint"),
    ):
        program = hinted(programs.tile_copy(step, dtype), hint, hint)
        text = ptx_of(compile_ptx(program, arch))
        accesses = re.findall(r"\b(ld|st)\.global(\.\w[\w:]*)", text)
        assert {suffix for name, suffix in accesses if name == "ld"} == {load}
        assert {suffix for name, suffix in accesses if name == "st"} == {store}
        assert compile_program(program, Target("cuda", arch), observe=False).artifact.resources.registers


def test_shared_memory_has_no_cache():
    b = Writer("shared")
    x = b.array("x", f32, "n", mutable=True)
    buffer, lane = b.alloc(f32, 64), b.id("lane")
    b.write(buffer, b.read(x, lane), lane)
    b.barrier()
    b.write(x, b.read(buffer, b.value("sub", b.const(63), lane)), lane)
    program = hinted(b.program(group=(64,), domain=Domain("lanes", (64,))), "streaming", "streaming")
    artifact, _ = agree(program, [normal(64)])
    assert ptx_of(artifact).count(".cs.") == 2

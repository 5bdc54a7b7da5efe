"""The driver: what it hands to a target, and what it makes of what comes back."""

from dataclasses import replace

import pytest

from support import programs
from support.builder import Builder
from tessera.core.artifact import Binding, LaunchRule, Resources, Slot
from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.listing import Line, Listing
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.targets import TARGETS, Target
from tessera.lowering.artifact_cache.key import artifact_key
from tessera.lowering.base.backends import Generate, backend_of
from tessera.lowering.base.target_code import TargetCode
from tessera.lowering.driver import compile as driver

TARGET = Target("cpu", "znver5", "+avx2")


def generate_by(patch: pytest.MonkeyPatch, generate: Generate) -> None:
    """Let `generate` take the place of the CPU's code generator."""
    backend = replace(backend_of(TARGETS["cpu"]), generate=generate)
    patch.setattr(driver, "backend_of", lambda kind: backend)


Calls = list[tuple[str, Program, Target, object]]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A target that only remembers what it was given."""
    calls: Calls = []

    def generate(module: ir.Module, program: Program, target: Target, observe: object):
        calls.append((str(module), program, target, observe))
        listings = (Listing("asm", "", (Line("ret"),)),) if observe else ()
        return TargetCode(b"code", "entry", (Slot("pointer"),), LaunchRule("single"), Resources(64), True, listings)

    generate_by(monkeypatch, generate)
    return calls


def test_an_artifact_says_all_a_launch_needs(target: Calls):
    program = programs.saxpy()
    compilation = driver.compile_program(program, TARGET, observe=False)
    artifact = compilation.artifact
    assert (artifact.code, artifact.entry, artifact.name) == (b"code", "entry", "saxpy")
    assert artifact.key == artifact_key(program, TARGET)
    assert artifact.symbols == (("n", 0, 0, 1),)
    x, y, alpha = artifact.bindings
    assert (x.name, x.mutable, y.mutable) == ("x", False, True)
    assert alpha == Binding("alpha", program.parameters[2].value.type, False, program.parameters[2].span)
    assert artifact.target == TARGET
    assert artifact.resources.scratch_bytes == 64
    assert artifact.bounded
    assert artifact.source == program.source
    assert set(artifact.toolchain) == {"tessera", "torch-mlir", "llvmlite"}
    assert compilation.listings == ()
    assert compilation.passes == ()


def test_the_target_gets_the_finished_tile_ir(target: Calls):
    program = programs.matmul()
    driver.compile_program(program, TARGET, observe=False)
    ((module, given, where, observe),) = target
    assert "tessera.ranges" in module
    assert "scf.for" in module
    assert (given, where, observe) == (program, TARGET, False)


def test_an_observer_sees_every_level_and_pass(target: Calls):
    compilation = driver.compile_program(programs.softmax_rows(), TARGET, observe=True)
    stages = [(listing.level, listing.stage) for listing in compilation.listings]
    names = [
        "to-tile", "tile-mask-absent", "tile-pack-floats", "tile-simplify", "tile-mask-edges", "tile-distribute-ranges", "tile-distribute-rows",
        "tile-expand-softmax", "tile-simplify-2", "tile-round-operands", "tile-place-values",
    ]  # fmt: skip
    assert stages == [("source", ""), *(("tile", name) for name in names), ("tile", ""), ("asm", "")]
    assert [record.name for record in compilation.passes] == [*names, "generate-cpu"]
    changed = {record.name: record.changed for record in compilation.passes}
    assert changed["tile-distribute-ranges"]
    assert not changed["tile-distribute-rows"]
    assert compilation.listings[-2].text == compilation.listings[-3].text
    assert all(record.seconds >= 0 for record in compilation.passes)


def test_the_source_is_the_first_level(target: Calls):
    program = programs.tile_copy()
    source = driver.compile_program(program, TARGET, observe=True).listings[0]
    assert source.lines[0].text == "    line 1 of tile_copy"
    second = source.lines[1]
    assert second.ops == (0,)
    assert second.spans[0].line == 2


def test_observing_changes_nothing(target: Calls):
    for observe in (False, True):
        driver.compile_program(programs.matmul(), TARGET, observe=observe)
    assert target[0][0] == target[1][0]


def test_an_unknown_target():
    with pytest.raises(CompilerCrash, match="no compiler for the target 'tpu:v5'"):
        driver.compile_program(programs.saxpy(), Target("tpu", "v5"), observe=False)


def test_mistakes_carry_the_users_text(target: Calls):
    b = Builder("broken")
    v = b.const(1.0, f32)
    b.value("frobnicate", v)
    with pytest.raises(CompilerCrash, match="no Tile IR for 'frobnicate'") as caught:
        driver.compile_program(b.program(), TARGET, observe=False)
    assert "line 3 of broken" in str(caught.value)
    driver.compile_program(programs.saxpy(), TARGET, observe=False)  # the next one works

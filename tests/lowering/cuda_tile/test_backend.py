"""The whole target: cubins for every architecture, levels, resources, and on a GPU the same answers."""

from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda_tile.compare import interpreted
from support import programs
from support.tile_cases import Case, cases, product
from support.tile_kernels import same_bits
from tessera.core.base.dtypes import f16, f32, fp8_e4m3
from tessera.core.compilation import Compilation
from tessera.core.errors.catalog import CudaFailure, UnknownArchitecture
from tessera.core.program.program import Program
from tessera.core.targets import TARGETS, Target
from tessera.lowering.base.cuda_toolkit import find_tool
from tessera.lowering.base.sass import with_machine_code
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.cuda import CudaLauncher, driver

pytestmark = pytest.mark.skipif(find_tool("tileiras") is None, reason="needs tileiras")


def compiled(program: Program, arch: str = "sm_90", *, observe: bool = False) -> Compilation:
    compilation = compile_program(program, Target("cuda_tile", arch), observe)
    return replace(compilation, listings=with_machine_code(compilation.artifact, compilation.listings))


@pytest.mark.parametrize("arch", TARGETS["cuda_tile"].architectures)
def test_a_kernel_for_every_architecture(arch: str):
    artifact = compiled(programs.matmul(64, 64, 32, f16), arch).artifact
    assert artifact.code.startswith(b"\x7fELF")
    assert artifact.entry == "matmul"
    assert artifact.launch.kind == "ranges"
    assert artifact.launch.lanes_per_group == 1
    assert 16 <= (artifact.resources.registers or 0) <= 255
    assert artifact.resources.spill_bytes == 0
    assert set(artifact.toolchain) >= {"tileiras", "cuda-tile", "nvdisasm"}


def test_the_levels():
    result = compiled(programs.softmax_rows(64, 4), observe=True)
    levels = [listing.level for listing in result.listings if not listing.stage]
    assert levels == ["source", "tile", "target", "sass"]
    target, sass = (next(x for x in result.listings if x.level == level) for level in ("target", "sass"))
    assert target.lines[0].text.startswith("entry @softmax_rows(")
    code = [line for line in sass.lines if "/*" in line.text and "NOP" not in line.text]
    assert sum(bool(line.ops) for line in code) > len(code) / 2


def test_matrices_use_the_tensor_cores():
    sass = next(x for x in compiled(programs.matmul(64, 64, 32, f16), observe=True).listings if x.level == "sass")
    assert "HGMMA" in sass.text


@pytest.mark.parametrize(("arch", "instruction"), [("sm_80", "HMMA"), ("sm_120", "QMMA")])
def test_floats_of_8_bits_are_widened_where_there_are_no_products_of_them(arch: str, instruction: str):
    result = compiled(product(fp8_e4m3, f32, (64, 64, 64)), arch, observe=True)
    assert f" {instruction}." in next(x for x in result.listings if x.level == "sass").text


def test_the_schedule_may_say_how_many_warps():
    many = replace(product(f16, f32, (64, 64, 64)), options={"num_warps": 8})
    four = replace(many, options={"num_warps": 4})
    assert compiled(many).artifact.code != compiled(four).artifact.code


def test_another_architecture_is_refused():
    with pytest.raises(UnknownArchitecture, match="sm_90a"):
        compiled(programs.tile_copy(), "sm_90a")


def _has_gpu() -> bool:
    try:
        driver()
    except CudaFailure:
        return False
    return True


def _is_whole(case: Case) -> bool:
    """Whether its arrays have no gaps: others are not copied to a GPU."""
    return all(value.flags.c_contiguous for value in case.fresh() if isinstance(value, np.ndarray))


@pytest.mark.gpu
@pytest.mark.skipif(not _has_gpu(), reason="needs a GPU and cuda-bindings")
@pytest.mark.parametrize("case", [case for case in cases() if _is_whole(case)], ids=lambda c: c.name)
def test_on_the_gpu(case: Case):
    got = case.fresh()
    grid = None if case.groups is None else Grid((case.groups,))
    CudaLauncher(compiled(case.program).artifact)(*got, grid=grid)
    for value, expected in zip(got, interpreted(case.program, case.fresh(), case.groups), strict=True):
        if not isinstance(value, np.ndarray):
            continue
        if case.tolerance == 0:
            assert same_bits(value, expected)
        else:
            difference = np.abs(value.astype(np.float64) - expected.astype(np.float64)).max()
            assert difference <= case.tolerance * np.abs(expected.astype(np.float64)).max()

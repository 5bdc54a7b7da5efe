import pytest

from support import programs
from tessera.core.program.program import Program
from tessera.core.targets import TARGETS, Target
from tessera.lowering.cuda.occupancy import occupancy
from tessera.lowering.cuda.resources import resource_report
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.launch.cuda import device_architecture

# CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES and CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the driver's API.
_STATIC_SHARED, _DYNAMIC_SHARED = 1, 8


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "causes"),
    [
        # Worked by hand from the tables: e.g. 168 registers * 32 = 5376 = 21 * 256, and 16384 // 5376 = 3 warps in
        # each of four partitions, so 12 warps, one block of 12.
        ("sm_90a", 384, 168, 0, 1, ("registers",)),
        ("sm_90a", 256, 32, 0, 8, ("warps", "registers")),
        ("sm_90a", 256, 33, 0, 6, ("registers",)),
        ("sm_90a", 256, 255, 0, 1, ("registers",)),
        ("sm_90a", 32, 16, 0, 32, ("blocks",)),
        ("sm_90a", 128, 32, 100 * 1024, 2, ("shared memory",)),
        ("sm_90a", 128, 32, 227 * 1024, 1, ("shared memory",)),
        ("sm_80", 128, 32, 163 * 1024, 1, ("shared memory",)),
        ("sm_80", 1024, 32, 0, 2, ("warps", "registers")),
        ("sm_89", 256, 32, 0, 6, ("warps",)),
        ("sm_89", 32, 16, 0, 24, ("blocks",)),
        ("sm_89", 1024, 32, 0, 1, ("warps",)),
        ("sm_100a", 40, 64, 1024, 16, ("registers",)),
    ],
)
def test_blocks_on_a_multiprocessor(
    arch: str, threads: int, registers: int, shared: int, blocks: int, causes: tuple[str, ...]
):
    found = occupancy(TARGETS["cuda"].architectures[arch], threads, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, causes)
    assert found.warps == blocks * -(-threads // 32)
    assert found.warps <= found.most_warps == TARGETS["cuda"].architectures[arch].warps


@pytest.mark.gpu
@pytest.mark.parametrize(
    "program",
    [
        programs.saxpy(),
        programs.group_sum(),
        programs.group_sum(1024),
        programs.matmul(64, 64, 32),
        programs.softmax_rows(),
    ],
    ids=lambda p: p.name,
)
def test_the_drivers_calculator_says_the_same(program: Program):
    cupy = pytest.importorskip("cupy")
    artifact = compile_program(program, Target("cuda", device_architecture()), observe=False).artifact
    module = cupy.cuda.function.Module()
    module.load(artifact.code)
    function = module.get_function(artifact.entry)
    static = cupy.cuda.driver.funcGetAttribute(_STATIC_SHARED, function.ptr)
    dynamic = max(0, artifact.resources.shared_bytes - static)
    cupy.cuda.driver.funcSetAttribute(function.ptr, _DYNAMIC_SHARED, dynamic)
    blocks = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, artifact.launch.threads, dynamic)
    assert resource_report(artifact).occupancy.blocks == blocks

import pytest

from tessera.lowering.target.cuda.architectures import ARCHITECTURES
from tessera.lowering.target.cuda.occupancy import occupancy


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
def test_blocks_on_a_multiprocessor(arch, threads, registers, shared, blocks, causes):
    found = occupancy(ARCHITECTURES[arch], threads, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, causes)
    assert found.warps == blocks * -(-threads // 32)
    assert found.warps <= found.most_warps == ARCHITECTURES[arch].warps

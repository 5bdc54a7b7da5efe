import pytest

from tessera.core.mistakes import UnknownArchitecture
from tessera.lowering.target.cuda.architectures import ARCHITECTURES, architecture, multiprocessor
from tessera.lowering.target.cuda_tile.architectures import ARCHITECTURES as TILE_ARCHITECTURES


def test_each_is_found_by_its_name():
    assert {architecture(name).name for name in ARCHITECTURES} == {"sm_80", "sm_89", "sm_90a", "sm_100a"}


def test_an_unknown_one_lists_the_known():
    with pytest.raises(UnknownArchitecture, match="sm_70") as caught:
        architecture("sm_70")
    assert "sm_90a" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "warps", "shared"),
    [("sm_80", 64, 164), ("sm_90", 64, 228), ("sm_90a", 64, 228), ("sm_100", 64, 228), ("sm_120", 48, 100)],
)
def test_multiprocessors_of_every_chip_that_is_compiled_for(name: str, warps: int, shared: int):
    chip = multiprocessor(name)
    assert chip is not None
    assert (chip.warps, chip.shared_processor) == (warps, shared * 1024)
    assert all(multiprocessor(one) for one in (*ARCHITECTURES, *TILE_ARCHITECTURES))
    assert multiprocessor("sm_70") is None

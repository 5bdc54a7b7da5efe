"""The GPUs CUDA Tile kernels are compiled for."""

import pytest

from tessera.core.mistakes import UnknownArchitecture
from tessera.lowering.target.cuda_tile.architectures import ARCHITECTURES, WITHOUT_BYTES, architecture


def test_names():
    assert ARCHITECTURES == ("sm_80", "sm_90", "sm_100", "sm_120")
    assert [architecture(name) for name in ARCHITECTURES] == list(ARCHITECTURES)
    assert architecture("") == "sm_90"
    assert set(WITHOUT_BYTES) < set(ARCHITECTURES)


def test_another_name_is_refused_with_those_there_are():
    with pytest.raises(UnknownArchitecture, match="sm_90a") as caught:
        architecture("sm_90a")
    assert "sm_100" in (caught.value.hint or "")

import pytest

from tessera.core.mistakes import UnknownArchitecture
from tessera.lowering.target.cuda.architectures import ARCHITECTURES, architecture


def test_each_is_found_by_its_name():
    assert {architecture(name).name for name in ARCHITECTURES} == {"sm_80", "sm_89", "sm_90a", "sm_100a"}


def test_an_unknown_one_lists_the_known():
    with pytest.raises(UnknownArchitecture, match="sm_70") as caught:
        architecture("sm_70")
    assert "sm_90a" in caught.value.hint

"""Options are tested with kernels; here what merging does."""

import pytest

from tessera.core.mistakes import BadKernelOption
from tessera.kernel_options import Options, read_options, with_space


def test_spaces_merge_and_scalars_stand_alone():
    options = with_space(Options(tile=(32,)), {"BM": range(2)}, {"stages": 3, "mode": "fast"})
    assert options.space == {"BM": (0, 1), "stages": (3,), "mode": ("fast",)}
    assert options.tile == (32,)


def test_fast_is_a_flag():
    assert read_options({"fast": True}).fast
    assert not read_options({}).fast
    with pytest.raises(BadKernelOption, match="fast is True or False"):
        read_options({"fast": "yes"})

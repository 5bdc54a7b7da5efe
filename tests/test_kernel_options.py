"""Options are tested with kernels; here what merging does."""

from tessera.kernel_options import Options, with_space


def test_spaces_merge_and_scalars_stand_alone():
    options = with_space(Options(tile=(32,)), {"BM": range(2)}, {"stages": 3, "mode": "fast"})
    assert options.space == {"BM": (0, 1), "stages": (3,), "mode": ("fast",)}
    assert options.tile == (32,)

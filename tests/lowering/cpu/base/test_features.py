"""What feature strings tell of a processor."""

from tessera.lowering.cpu.base.features import CpuFeatures


def test_features_decide_what_is_masked():
    small, middle = CpuFeatures.from_features("+sse2,-avx"), CpuFeatures.from_features("+avx,+avx2,-avx512f")
    large = CpuFeatures.from_features("+avx,+avx512f,+avx512bw")
    assert [small.masks(size) for size in (1, 2, 4, 8)] == [False] * 4
    assert [middle.masks(size) for size in (1, 2, 4, 8)] == [False, False, True, True]
    assert [large.masks(size) for size in (1, 2, 4, 8)] == [True] * 4
    assert [large.scatters(size) for size in (1, 2, 4, 8)] == [False, False, True, True]
    assert not middle.scatters(4)

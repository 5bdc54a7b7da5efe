"""The table of targets."""

import pytest

from tessera.core.errors.catalog import BadSetting, UnknownArchitecture
from tessera.core.targets import (
    DEFAULT,
    DEFAULT_ON_GPU,
    GENERATIONS,
    TARGETS,
    Target,
    every_level,
    find_kind,
    generation,
    rates_of,
    target_showing,
)

CUDA, CUDA_TILE = TARGETS["cuda"], TARGETS["cuda_tile"]


def test_the_rows():
    assert tuple(TARGETS) == ("cpu", "interpret", "cuda", "cuda_tile")
    assert [name for name, kind in TARGETS.items() if kind.on_gpu] == ["cuda", "cuda_tile"]
    assert [name for name, kind in TARGETS.items() if kind.profiled] == ["cpu", "cuda"]
    assert tuple(CUDA.architectures) == ("sm_80", "sm_89", "sm_90a", "sm_100a")
    assert tuple(CUDA_TILE.architectures) == ("sm_80", "sm_90", "sm_100", "sm_120")
    assert (DEFAULT, DEFAULT_ON_GPU) == ("cpu", "cuda")


def test_a_target_knows_its_row():
    assert Target("cuda", "sm_80").kind is CUDA


def test_an_empty_name_is_the_default_architecture():
    assert (CUDA.architecture("").name, CUDA_TILE.architecture("").name) == ("sm_90a", "sm_90")


@pytest.mark.parametrize(("name", "wanted", "known"), [("cuda", "sm_70", "sm_90a"), ("cuda_tile", "sm_90a", "sm_100")])
def test_an_unknown_architecture_lists_the_known(name: str, wanted: str, known: str):
    with pytest.raises(UnknownArchitecture, match=f"'{wanted}' for the target {name}") as caught:
        TARGETS[name].architecture(wanted)
    assert known in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("capability", "cuda", "cuda_tile"),
    [
        ((7, 5), None, None), ((8, 0), "sm_80", "sm_80"), ((8, 6), "sm_80", "sm_80"), ((8, 7), "sm_80", "sm_80"),
        ((8, 9), "sm_89", "sm_80"), ((9, 0), "sm_90a", "sm_90"), ((10, 0), "sm_100a", "sm_100"),
        ((10, 3), None, "sm_100"), ((12, 0), None, "sm_120"), ((12, 1), None, "sm_120"),
    ],
)  # fmt: skip
def test_the_newest_architecture_whose_code_runs(capability: tuple[int, int], cuda: str | None, cuda_tile: str | None):
    """Code runs from its own minor version on; that of sm_90a and sm_100a on no other GPU."""
    found = [kind.architecture_for(capability) for kind in (CUDA, CUDA_TILE)]
    assert [one and one.name for one in found] == [cuda, cuda_tile]


@pytest.mark.parametrize(
    ("name", "warps", "shared"),
    [("sm_80", 64, 164), ("sm_90", 64, 228), ("sm_90a", 64, 228), ("sm_100", 64, 228), ("sm_120", 48, 100)],
)
def test_what_a_multiprocessor_holds(name: str, warps: int, shared: int):
    chip = generation(name)
    assert chip is not None
    assert (chip.warps, chip.shared_processor) == (warps, shared * 1024)


def test_every_architecture_has_a_generation():
    for kind in (CUDA, CUDA_TILE):
        for name, one in kind.architectures.items():
            own = generation(name)
            assert own is not None
            assert (own.capability, own.shared_bytes, own.tma) == (one.capability, one.shared_bytes, one.tma)
    assert generation("sm_70") is None


def test_features():
    having = {
        feature: [name for name, one in GENERATIONS.items() if getattr(one, feature)]
        for feature in ("wgmma", "tma", "fp8_mma")
    }
    assert having["wgmma"] == ["sm_90"]
    assert having["tma"] == ["sm_90", "sm_100", "sm_120"]
    assert having["fp8_mma"] == ["sm_89", "sm_90", "sm_100", "sm_120"]


def test_rates_of_a_gpu_without_its_own_are_those_of_the_one_before():
    assert rates_of((9, 0))["dot 16"] == 4096
    assert rates_of((8, 7)) is rates_of((8, 6))
    assert rates_of((12, 0)) is rates_of((10, 0))


def test_names_are_read():
    assert find_kind("cpu") == (TARGETS["cpu"], "")
    assert find_kind("cuda_tile:sm_120") == (CUDA_TILE, "sm_120")


@pytest.mark.parametrize("text", ["", "tpu", "cpu:x", None, "cuda-tile"])
def test_other_names_are_refused(text: object):
    with pytest.raises(BadSetting, match="there is no target") as caught:
        find_kind(text)
    assert caught.value.hint == "choose cpu, interpret, cuda, cuda_tile, or cuda:sm_90a and the like"


def test_levels():
    assert every_level() == ("source", "tile", "target", "llvm", "asm", "ptx", "sass")


@pytest.mark.parametrize(
    ("level", "own", "shown"),
    [
        ("asm", "cpu", "cpu"), ("ptx", "cpu", "cuda"), ("sass", "interpret", "cuda"), ("asm", "interpret", "interpret"),
        ("sass", "cuda_tile", "cuda_tile"), ("asm", "cuda", "cuda"), ("none", "cpu", "cpu"),
    ],
)  # fmt: skip
def test_levels_of_gpus_are_shown_by_a_gpu(level: str, own: str, shown: str):
    assert target_showing(level, TARGETS[own]) is TARGETS[shown]

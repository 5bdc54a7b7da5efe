"""The package itself: what importing it costs, and its names."""

import subprocess
import sys

import pytest

import tessera


def test_importing_loads_nothing_heavy():
    script = "import sys, tessera; print(*(set(sys.modules) & {'numpy', 'torch_mlir', 'llvmlite', 'IPython', 'tessera.kernels.kernel'}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_names():
    from tessera import KiB, autotune, ceil_div, f32, kernel, launch, tile, tshared  # noqa: PLC0415  # pyright: ignore[reportUnusedImport]

    assert (KiB, ceil_div(5, 2)) == (1024, 3)
    assert f32.name == "f32"
    assert callable(autotune.search)
    for name in ("kernel", "launch", "tile", "tshared", "compile_source", "TesseraError", "configure"):
        assert name in dir(tessera)
    assert kernel is tessera.kernel
    assert tile is tessera.tile
    assert launch is tessera.launch
    assert tshared is tessera.tshared


def test_unknown_names():
    with pytest.raises(AttributeError, match="module 'tessera' has no attribute 'tyle'"):
        _ = tessera.tyle
    with pytest.raises(AttributeError):
        _ = tessera.__nothing__


def test_modules_do_not_shadow_names():
    import tessera.api.decorator  # noqa: PLC0415  # pyright: ignore[reportUnusedImport]
    import tessera.tuning.autotune  # noqa: PLC0415  # pyright: ignore[reportUnusedImport]

    assert tessera.kernel is tessera.api.decorator.kernel

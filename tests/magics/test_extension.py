"""Loading, loading again, unloading; importing changes nothing."""

import subprocess
import sys

import tessera_magics
from support.shell import Shell
from tessera.core.errors.base import TesseraError
from tessera.core.progress import NOTEBOOK
from tessera.kernels.kernel import Kernel

MARKS = """
import sys, tessera_magics
assert not any(name.startswith(("tessera.", "IPython", "torch_mlir", "llvmlite")) for name in sys.modules), sys.modules
"""


def state(shell: Shell) -> tuple[list[str], int, int, bool, bool, bool, int, bool]:
    """Everything that the extension may change."""
    magics = shell.magics_manager.magics
    return (
        [kind for kind in ("line", "cell") if "tessera" in magics[kind]],
        len(shell.Completer.custom_matchers),
        len(shell.ast_transformers),
        Kernel in shell.display_formatter.mimebundle_formatter.type_printers,
        TesseraError.paint is None,
        "_ofind" in vars(shell),
        len(shell.inspector.mime_hooks),
        NOTEBOOK.opener is None,
    )


def test_importing_the_package_imports_and_registers_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", MARKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_loading_twice_is_loading_once_and_unloading_takes_everything_back(loaded: Shell) -> None:
    once = state(loaded)
    assert once[0] == ["line", "cell"]
    loaded.run_line_magic("reload_ext", "tessera_magics")
    assert state(loaded) == once
    tessera_magics.load_ipython_extension(loaded)
    assert state(loaded) == once
    tessera_magics.unload_ipython_extension(loaded)
    after = state(loaded)
    assert after[0] == []
    assert after[1] == once[1] - 1
    assert after[2] == once[2] - 1
    assert after[3:] == (False, True, False, 0, True)
    loaded.run_line_magic("reload_ext", "tessera_magics")


def test_what_a_cell_defined_stays_after_unloading(loaded: Shell) -> None:
    loaded.run_cell("%%tessera\n@kernel(target='interpret')\ndef f(y: mut f32[n]):\n    y[tile.linear_id()] = 1.0")
    tessera_magics.unload_ipython_extension(loaded)
    result = loaded.run_cell("import numpy as np\ny = np.zeros(3, np.float32)\nf(y)\nfloat(y.sum())")
    assert result.result == 3.0
    tessera_magics.load_ipython_extension(loaded)

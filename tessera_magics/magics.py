"""The magics: `%%tessera` runs a cell of Tessera syntax, `%tessera` asks about the machine and the compiler.

What runs them is loaded when one is used: loading the extension stays quick.
"""

import importlib
from collections.abc import Callable
from typing import cast

from IPython.core.magic import Magics

from tessera.core.targets import every_level
from tessera_magics import options, views
from tessera_magics.ipython import Shell, magic, magic_arguments

argument = magic_arguments.argument


@magic.magics_class
class TesseraMagics(Magics):
    """`%%tessera` and `%tessera`."""

    @magic_arguments.magic_arguments("%tessera")
    @argument("--target", type=options.target_name, help="cpu, interpret, cuda, or cuda:sm_90a and the like")
    @argument(
        "--show", type=options.levels, metavar="LEVEL[,LEVEL]", help=f"open the viewer at {', '.join(every_level())}"
    )
    @argument(
        "--view",
        type=views.view_names,
        metavar="VIEW[,VIEW]",
        help=f"show views of the kernel: {', '.join(views.NAMES)}",
    )
    @argument(
        "--name", type=options.python_name, help="the kernel that --show, --view and --out mean (default: the last)"
    )
    @argument("--time", action="store_true", help="print how long the cell took, and compiling its kernels")
    @argument("--sanitize", action="store_true", help="interpret the kernels, and look for races and bad accesses")
    @argument("--out", type=options.python_name, metavar="NAME", help="keep the compilation under this name")
    @magic.cell_magic("tessera")
    def cell(self, line: str, cell: str) -> None:
        """Run a cell of Tessera syntax: kernels, and any Python around them.

        What the cell defines lands in the notebook; its last expression is displayed.  The language's names (kernel,
        tile, tshared, f32, ...) need no import.
        """
        __tracebackhide__ = True
        options.check_options(line)
        run: Callable[..., None] = importlib.import_module("tessera_magics.cell").run_magic
        run(self._shell, line, cell, magic_arguments.parse_argstring(self.cell, line))

    @magic.line_magic("tessera")
    def line(self, line: str) -> object:
        """Ask about the machine and the compiler; `%%tessera` runs a cell, see `%%tessera?`.

        %tessera doctor               versions, targets, tools, the cache; what is missing and how to get it
        %tessera targets              what kernels can be compiled for
        %tessera ir NAME [LEVEL]      the viewer for kernel NAME, opened at LEVEL
        %tessera VIEW NAME            a view of kernel NAME: explore, timeline, tiles, ...; Tab lists them
        %tessera diff A B             what differs between two kernels, or two compilations
        %tessera resources NAME [--target TARGET]
                                      what kernel NAME uses of a GPU: registers, spills, shared memory, occupancy and
                                      what limits it, instructions by kind (wgmma, TMA, ...); needs no GPU
        %tessera cache [info|clear]   the compiled kernels on disk
        %tessera --version            the version
        """
        run: Callable[..., object] = importlib.import_module("tessera_magics.line").run_command
        return run(self._shell, line)

    @property
    def _shell(self) -> Shell:
        return cast("Shell", self.shell)

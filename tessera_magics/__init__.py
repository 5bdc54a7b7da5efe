"""The IPython extension: `%load_ext tessera_magics`.  Importing this package changes nothing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tessera_magics.ipython import Shell


def load_ipython_extension(shell: "Shell") -> None:
    """Register the magics, their completion, the display of our objects, and plain-Python kernels in ordinary cells.

    Doing it again replaces what was registered.  A compiler process starts in the background.
    """
    from tessera_magics.extension import register  # noqa: PLC0415 - IPython is optional

    register(shell)


def unload_ipython_extension(shell: "Shell") -> None:
    """Take everything back that `load_ipython_extension` registered; kernels that were defined stay."""
    from tessera_magics.extension import unregister  # noqa: PLC0415 - IPython is optional

    unregister(shell)

"""The IPython extension: `%load_ext tessera_magics`.  Importing this package changes nothing."""

from typing import Any

_TRANSFORMER = "AnnotationTransformer"


def load_ipython_extension(shell: Any) -> None:
    """Register the magics, their completion, the display of our objects, and plain-Python kernels in ordinary cells.

    Doing it again replaces what was registered.  A compiler process starts in the background.
    """
    # Only loading the extension, not importing this package, pays for what it needs.
    from tessera.frontend.syntax.source_file import AnnotationTransformer  # noqa: PLC0415
    from tessera.session.session import session  # noqa: PLC0415
    from tessera.viz import display  # noqa: PLC0415
    from tessera_magics.complete import complete_language  # noqa: PLC0415
    from tessera_magics.inspection import describe_language  # noqa: PLC0415
    from tessera_magics.magics import TesseraMagics  # noqa: PLC0415
    from tessera_magics.progress import show_progress  # noqa: PLC0415
    from tessera_magics.tracebacks import paint_errors  # noqa: PLC0415

    unload_ipython_extension(shell)
    shell.register_magics(TesseraMagics(shell))
    complete_language(shell)
    describe_language(shell)
    shell.ast_transformers.append(AnnotationTransformer())
    display.register(shell.display_formatter)
    paint_errors()
    show_progress(shell)
    session().warm()


def unload_ipython_extension(shell: Any) -> None:
    """Take everything back that `load_ipython_extension` registered; what kernels were defined stay."""
    from tessera.viz import display  # noqa: PLC0415
    from tessera_magics.complete import forget_language  # noqa: PLC0415
    from tessera_magics.inspection import forget_descriptions  # noqa: PLC0415
    from tessera_magics.progress import hide_progress  # noqa: PLC0415
    from tessera_magics.tracebacks import plain_errors  # noqa: PLC0415

    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("tessera", None)
    forget_language(shell)
    forget_descriptions(shell)
    kept = [each for each in shell.ast_transformers if type(each).__name__ != _TRANSFORMER]
    shell.ast_transformers[:] = kept
    display.unregister(shell.display_formatter)
    plain_errors()
    hide_progress()

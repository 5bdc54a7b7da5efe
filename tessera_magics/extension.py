"""Register Tessera's magics, completion and views with an IPython shell, and take them back."""

from tessera.frontend.syntax.source_file import AnnotationTransformer
from tessera.session.session import session
from tessera.viz import display
from tessera_magics.complete import complete_language, forget_language
from tessera_magics.inspection import describe_language, forget_descriptions
from tessera_magics.ipython import Shell
from tessera_magics.language_comm import serve_language, stop_serving
from tessera_magics.magics import TesseraMagics
from tessera_magics.progress import hide_progress, show_progress
from tessera_magics.tracebacks import paint_errors, plain_errors


def register(shell: Shell) -> None:
    """Register magics, completion, inspection, displays, error views, progress and the language service."""
    unregister(shell)
    shell.register_magics(TesseraMagics(shell))
    complete_language(shell)
    describe_language(shell)
    shell.ast_transformers.append(AnnotationTransformer())
    display.register(shell.display_formatter)
    paint_errors()
    show_progress(shell)
    serve_language(shell)
    session().warm()


def unregister(shell: Shell) -> None:
    """Take back everything that `register` did, also for an earlier import of this package."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("tessera", None)
    forget_language(shell)
    forget_descriptions(shell)
    kept = [each for each in shell.ast_transformers if type(each).__name__ != AnnotationTransformer.__name__]
    shell.ast_transformers[:] = kept
    display.unregister(shell.display_formatter)
    plain_errors()
    hide_progress()
    stop_serving(shell)

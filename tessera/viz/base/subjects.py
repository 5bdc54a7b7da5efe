"""Check the subjects of views: kernels, compilations and profiles, and the mistake of giving something else."""

from tessera.core.compilation import Compilation
from tessera.core.errors.catalog import NothingToShow
from tessera.kernels.kernel import Configured, Kernel
from tessera.profiling.results import Profile
from tessera.runtime.binding.grid import Grid
from tessera.session.compiled import Compiled


def launched(x: object, view: str) -> tuple[Kernel, Grid | None]:
    """Return the kernel of a view that runs one, and the grid where `x` is `kernel[grid, block]`.

    view: the function that asks, for the message.  Raises NothingToShow for what is no kernel.
    """
    if isinstance(x, Configured):
        return x.kernel, x.grid
    if not isinstance(x, Kernel):
        raise wrong(view, "a kernel", x, "give what @kernel makes")
    return x, None


def compiled(x: object, view: str) -> Compiled:
    """Return a compilation as it is, and of a kernel its last one.

    Raises NothingToShow for anything else, UnknownLevel for a kernel that was not called and says too little by itself.
    """
    if isinstance(x, Compiled):
        return x
    if not isinstance(x, Kernel | Configured):
        raise wrong(view, "a kernel or a compilation", x, f"{view}(k), or {view}(k.compile(x, y)) for other arguments")
    return launched(x, view)[0].compile()


def profiled(x: object, view: str) -> Profile:
    """Return a profile as it is.  Raises NothingToShow for anything else."""
    if not isinstance(x, Profile):
        raise wrong(
            view, "a profile", x, f"call the kernel as tessera.profile(k)(x, y), and give {view} what it returns"
        )
    return x


def wrong(view: str, wanted: str, x: object, hint: str) -> NothingToShow:
    """Return the mistake of giving `x` to a view that shows `wanted`."""
    return NothingToShow(f"{view}() shows {wanted}, and {_named(x)} is none", hint=hint)


def _named(x: object) -> str:
    """Return what `x` is, in a few words."""
    if isinstance(x, Kernel | Configured):
        return f"the kernel {launched(x, '')[0].source.name}"
    if isinstance(x, Profile):
        return f"a profile of {x.kernel}"
    if isinstance(x, Compiled):
        return f"a compilation of {x.name}"
    if isinstance(x, Compilation):
        return f"the record of a compilation of {x.artifact.name}"
    if callable(x):
        return f"the function {getattr(x, '__name__', type(x).__name__)}"
    return f"an object of type {type(x).__name__}"

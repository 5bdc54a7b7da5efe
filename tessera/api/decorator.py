"""`@kernel`: the decorator that makes a kernel of a function."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Unpack, overload

from tessera.core.errors.catalog import UnknownLevel
from tessera.core.program.program import Attribute
from tessera.kernels.kernel import Function, Kernel, Latest
from tessera.kernels.options import OptionArguments, Options, Space, read_options, with_space
from tessera.runtime.binding.grid import Grid
from tessera.session.compiled import IrText


class KernelDecorator:
    """`@kernel`, `@kernel(tile=(128,), shared=8 * KiB)`, `@kernel.autotune(space=dict(BM=[64, 128]))`."""

    @overload
    def __call__(self, function: Function, /) -> Kernel: ...
    @overload
    def __call__(
        self, function: None = None, /, **options: Unpack[OptionArguments]
    ) -> Callable[[Function], Kernel]: ...
    def __call__(
        self, function: Function | None = None, /, **options: Unpack[OptionArguments]
    ) -> Kernel | Callable[[Function], Kernel]:
        """Make a kernel of `function`; with options (see `Options`), return the decorator that does."""
        if function is not None and not options:
            return decorate(function, Options())
        chosen = read_options(options)
        return (lambda f: decorate(f, chosen)) if function is None else decorate(function, chosen)

    def autotune(self, space: Space | None = None, **more: Iterable[Attribute]) -> Callable[[Function], Kernel]:
        """Return a decorator: the kernel searches `space` for its fastest parameters when it is first called."""
        return lambda function: decorate(function, with_space(Options(), space, more))

    def inspect_ir(self, level: str = "tile", *arguments: object, stage: str = "", target: str | None = None) -> IrText:
        """Return a level of the kernel that was defined, called or inspected last; see `Kernel.inspect_ir`.

        Raises UnknownLevel where no kernel was defined.
        """
        if Latest.kernel is None:
            raise UnknownLevel("no kernel was defined yet", hint="define one with @kernel")
        return Latest.kernel.inspect_ir(level, *arguments, stage=stage, target=target)

    def __repr__(self) -> str:
        return "<kernel: makes a kernel of a function>"


def decorate(function: Function | Kernel, options: Options) -> Kernel:
    """Make a kernel of `function`, or add options to one."""
    if isinstance(function, Kernel):
        old = function.options
        merged = {
            field.name: getattr(options, field.name)
            for field in dataclasses.fields(Options)
            if getattr(options, field.name)
        }
        return function.with_options(dataclasses.replace(old, **merged))
    return Kernel(function, options, tuner=_tuned)


def _tuned(kernel: Kernel, values: Sequence[object], grid: Grid | None) -> Mapping[str, Attribute]:
    """Search the kernel's space for its fastest parameters, or return what a search has recorded."""
    from tessera.tuning.autotune import tuned_constants  # noqa: PLC0415 - few kernels are tuned

    return tuned_constants(kernel, values, grid)


kernel: Final = KernelDecorator()
"""The decorator."""

"""Arguments like those of a kernel's last call, for whatever runs the kernel again without its user's arrays."""

import numpy as np

from tessera.core.errors.catalog import NotCalledYet
from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.kernels.kernel import Kernel
from tessera.runtime.arrays.host import AnyArray


def arguments_like_last_call(kernel: Kernel) -> tuple[object, ...]:
    """Return random arguments of the types and shapes of the kernel's last call.  Raises NotCalledYet: none was."""
    described = kernel.last_arguments
    if described is None:
        name = kernel.source.name
        raise NotCalledYet(
            f"{name} was not called yet, so there are no types and shapes to run it on",
            hint=f"call {name} first, or give its arguments",
        )
    generator = np.random.default_rng(0)
    return tuple(_random(argument, generator) for argument in described.arguments)


def _random(argument: Argument, generator: np.random.Generator) -> AnyArray | float | int | bool:
    """Make numbers that hurt no kernel: floats around 0, integers from 0 to 3 (maybe indices), scalars about 1."""
    dtype = argument.dtype
    if not isinstance(argument, ArrayArgument):
        return {"float": 1.25, "bool": True}.get(dtype.kind, 1)
    if dtype.is_float:
        values: AnyArray = generator.standard_normal(argument.shape)
    else:
        values = generator.integers(0, 2 if dtype.kind == "bool" else 4, argument.shape)
    array = values.astype(dtype.numpy)
    return array if argument.contiguous else _with_gaps(array)


def _with_gaps(array: AnyArray) -> AnyArray:
    """Return the same numbers in every second place of a larger array."""
    roomy = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    roomy[..., ::2] = array
    return roomy[..., ::2]

"""Compare what a kernel computes with what is expected: arrays, a function of the arguments, or NumPy code."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from tessera.core.errors.catalog import BadExpectation
from tessera.kernels.kernel import Kernel
from tessera.profiling.argument_clones import ClonedArguments
from tessera.profiling.comparison import results_of
from tessera.profiling.wrong_elements import Numbers, WrongElements, wrong_elements
from tessera.runtime.arrays.host import is_array
from tessera.runtime.binding.grid import Grid

_HINT = (
    "give an array of its only output, several by their names, a function of its arguments, or NumPy code that "
    "assigns to its outputs"
)


def wrong_outputs(
    kernel: Kernel, values: Sequence[object], expect: object, grid: Grid | None = None, *,
    named_like: Kernel | None = None,
) -> tuple[WrongElements, ...]:  # fmt: skip
    """Run a kernel on copies of its arguments and return which outputs are not as expected.

    expect: an array, of the only output; a sequence of arrays, in the order of the outputs, or a mapping by their
        names; a function of copies of the arguments, which returns one of these, or None when it writes to the copies;
        or NumPy code with the names of the parameters, `"y[:] = 2 * x"`
    named_like: a kernel of the same parameters whose names count; None: the kernel itself
    Floats of 32 bits may differ by 1e-4 of the largest expected value, see `tolerance_of`.

    Raises BadExpectation for what fits no output, and what a launch and the code raise.
    """
    named = named_like or kernel
    outputs = results_of(kernel, values, grid, named)
    expected = expected_outputs(named, values, expect, outputs)
    found = (wrong_elements(name, outputs[name], array) for name, array in expected.items())
    return tuple(each for each in found if each is not None)


def expected_outputs(
    kernel: Kernel, values: Sequence[object], expect: object, outputs: Mapping[str, Numbers]
) -> dict[str, Numbers]:
    """Return the arrays that are expected, by the names of outputs.  Raises BadExpectation."""
    if isinstance(expect, str) or callable(expect):
        names = [parameter.arg for parameter in kernel.source.function.args.args]
        copies = _host_copies(values)
        given = dict(zip(names, copies, strict=True))
        if isinstance(expect, str):
            exec(compile(expect, "<expect>", "exec"), {"np": np}, given)  # noqa: S102 - the user's own code
            expect = None
        else:
            expect = expect(*copies)
        if expect is None:
            expect = {name: given[name] for name in outputs}
    return {name: _fitting(name, array, outputs[name]) for name, array in _by_name(kernel, expect, outputs).items()}


def _by_name(kernel: Kernel, expect: object, outputs: Mapping[str, Numbers]) -> Mapping[str, object]:
    if isinstance(expect, Mapping):
        named = cast("Mapping[str, object]", expect)
        for name in named:
            if name not in outputs:
                message = f"expect= has {name!r}, and {kernel.source.name} writes {', '.join(outputs) or 'nothing'}"
                raise BadExpectation(message, hint=_HINT)
        return named
    arrays: list[object] = [expect]
    if isinstance(expect, tuple | list) and len(outputs) > 1:  # of one output they are its numbers
        arrays = list(cast("Sequence[object]", expect))
    if len(arrays) != len(outputs):
        message = f"expect= gives {len(arrays)}, and {kernel.source.name} writes {', '.join(outputs) or 'nothing'}"
        raise BadExpectation(message, hint=_HINT)
    return dict(zip(outputs, arrays, strict=True))


def _fitting(name: str, expected: object, output: Numbers) -> Numbers:
    try:
        array = np.asarray(expected)
        shaped = np.broadcast_to(array, output.shape)
    except ValueError as error:
        shape = "x".join(map(str, np.shape(cast("ArrayLike", expected)))) or "a number"
        whole = "x".join(map(str, output.shape)) or "a number"
        raise BadExpectation(f"expect= of {name} is {shape}, and {name} is {whole}", hint=_HINT) from error
    if array.dtype.kind in "OSU":
        raise BadExpectation(f"expect= of {name} holds {array.dtype}, which are no numbers", hint=_HINT)
    return shaped


def _host_copies(values: Sequence[object]) -> list[object]:
    """Return the arguments with copies in the host's memory of what are arrays, GPU's included."""
    clones = ClonedArguments(values, [False] * len(values), on_device=False)
    try:
        return [np.array(clones.read(number)) if is_array(value) else value for number, value in enumerate(values)]
    finally:
        clones.close()

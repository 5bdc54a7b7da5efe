"""Compare what a kernel computes with what is expected: arrays, a function of the arguments, or NumPy code."""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from tessera.core.base.syntax_trees import parse_module
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
        or NumPy code with the names of the parameters, `"y[:] = 2 * x"`, for the outputs that it mentions
    named_like: a kernel of the same parameters whose names count; None: the kernel itself
    Floats of 32 bits may differ by 1e-4 of the largest expected value, see `tolerance_of`.

    Raises BadExpectation for what fits no output, and what a launch and the code raise.
    """
    named = named_like or kernel
    outputs = results_of(kernel, values, grid, named)
    expected = expected_outputs(named, values, expect, outputs)
    compared = (wrong_elements(name, outputs[name], array) for name, array in expected.items())
    return tuple(wrong for wrong in compared if wrong is not None)


def expected_outputs(
    kernel: Kernel, values: Sequence[object], expect: object, outputs: Mapping[str, Numbers]
) -> dict[str, Numbers]:
    """Return the arrays that are expected, by the names of outputs.  Raises BadExpectation."""
    if isinstance(expect, str):
        expect = _assigned(kernel, values, expect, outputs)
    elif callable(expect):
        expect = _returned(kernel, values, expect, outputs)
    return {name: _fitting(name, array, outputs[name]) for name, array in _by_name(kernel, expect, outputs).items()}


def _assigned(kernel: Kernel, values: Sequence[object], code: str, outputs: Mapping[str, Numbers]) -> object:
    """Run NumPy code on copies of the arguments and return the outputs that it mentions, by name."""
    tree = parse_module(code, "<expect>")
    mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if mentioned.isdisjoint(outputs):
        message = f"the code of expect= mentions none of what {kernel.source.name} writes: {', '.join(outputs)}"
        raise BadExpectation(message, hint=_HINT)
    variables = dict(zip(_parameters(kernel), _host_copies(values), strict=True))
    exec(compile(tree, "<expect>", "exec"), {"np": np}, variables)  # noqa: S102 - the user's own code
    return {name: variables[name] for name in outputs if name in mentioned}


def _returned(
    kernel: Kernel, values: Sequence[object], function: Callable[..., object], outputs: Mapping[str, Numbers]
) -> object:
    """Return what a function of copies of the arguments returns, or where that is None what it writes to them."""
    copies, before = _host_copies(values), _host_copies(values)
    expected = function(*copies)
    if expected is not None:
        return expected
    names = _parameters(kernel)
    written = {name: (copies[names.index(name)], before[names.index(name)]) for name in outputs}
    if all(_same_bits(after, old) for after, old in written.values()):
        message = f"the function of expect= returns None and changes none of {', '.join(outputs)}"
        raise BadExpectation(message, hint=_HINT)
    return {name: after for name, (after, _) in written.items()}


def _parameters(kernel: Kernel) -> list[str]:
    return [parameter.arg for parameter in kernel.source.function.args.args]


def _same_bits(one: object, other: object) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


def _by_name(kernel: Kernel, expect: object, outputs: Mapping[str, Numbers]) -> Mapping[str, object]:
    if isinstance(expect, Mapping):
        named = cast("Mapping[str, object]", expect)
        for name in named:
            if name not in outputs:
                message = f"expect= has {name!r}, and {kernel.source.name} writes {', '.join(outputs) or 'nothing'}"
                raise BadExpectation(message, hint=_HINT)
        return named
    arrays: list[object] = [expect]
    if isinstance(expect, tuple | list):
        elements = list(cast("Sequence[object]", expect))
        if len(outputs) > 1 or _is_only_output(elements, outputs):
            arrays = elements
    if len(arrays) != len(outputs):
        message = f"expect= gives {len(arrays)}, and {kernel.source.name} writes {', '.join(outputs) or 'nothing'}"
        raise BadExpectation(message, hint=_HINT)
    return dict(zip(outputs, arrays, strict=True))


def _is_only_output(elements: Sequence[object], outputs: Mapping[str, Numbers]) -> bool:
    """Return whether a sequence holds the array of the only output, rather than its numbers."""
    if len(elements) != 1 or not is_array(elements[0]):
        return False
    return [output.shape for output in outputs.values()] == [np.shape(_on_host(elements[0]))]


def _fitting(name: str, expected: object, output: Numbers) -> Numbers:
    expected = _on_host(expected)
    try:
        array = np.asarray(expected)
        shaped = np.broadcast_to(array, output.shape)
    except ValueError as error:
        shape = "x".join(map(str, np.shape(expected))) or "a number"
        expected_shape = "x".join(map(str, output.shape)) or "a number"
        raise BadExpectation(f"expect= of {name} is {shape}, and {name} is {expected_shape}", hint=_HINT) from error
    if array.dtype.kind in "OSU":
        raise BadExpectation(f"expect= of {name} holds {array.dtype} instead of numbers", hint=_HINT)
    if array.dtype.kind == "c" and output.dtype.kind != "c":
        raise BadExpectation(f"expect= of {name} is complex, and {name} is {output.dtype}", hint=_HINT)
    return shaped


def _on_host(expected: object) -> ArrayLike:
    """Return a copy in the host's memory of another library's array, such as a tensor on a GPU; others as they are."""
    library = is_array(expected) and type(expected) is not np.ndarray
    return cast("ArrayLike", _host_copies([expected])[0] if library else expected)


def _host_copies(values: Sequence[object]) -> list[object]:
    """Return the arguments with copies in the host's memory of what are arrays, GPU's included."""
    clones = ClonedArguments(values, [False] * len(values), on_device=False)
    try:
        return [np.array(clones.read(number)) if is_array(value) else value for number, value in enumerate(values)]
    finally:
        clones.close()

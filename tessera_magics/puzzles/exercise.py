"""Parts of an exercise: texts, arrays of a size, the right results, and a solution in Tessera syntax."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tessera.api.source_module import compile_source
from tessera.kernels.kernel import Kernel

Arrays = dict[str, NDArray[Any]]  # of any element type
POISON: Final = 99
"""What a result of integers holds before the call; one of floats holds NaN."""


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    solution: Tessera syntax; its last kernel is the solution, and all up to that kernel's signature is given
    extents: names of the extents; sizes: of the checks, the first one the smallest; small: that of the picture
    shapes: the extents of each input, in the order of the parameters; adjust: changes the numbers that were drawn
    expected: the results, which follow the inputs
    focus: the element of the first result that the picture explains; constants: of the solution, for the picture
    uses: operations that the kernel must have; reads: how often each element of an input may be read
    """

    title: str
    text: str
    hint: str
    solution: str
    extents: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]
    small: tuple[int, ...]
    shapes: Mapping[str, tuple[str, ...]]
    expected: Callable[[Arrays], Arrays]
    focus: tuple[int, ...]
    constants: Mapping[str, int] = field(default_factory=dict[str, int])
    uses: tuple[str, ...] = ()
    reads: Mapping[str, int] = field(default_factory=dict[str, int])
    tolerance: float = 1e-5
    adjust: Callable[[Arrays], Arrays] = lambda given: given

    @property
    def skeleton(self) -> str:
        """The cell that a learner fills: the solution up to its kernel's signature, and a body that is left out."""
        lines = self.solution.strip().splitlines()
        last = max(number for number, line in enumerate(lines) if line.startswith("def "))
        return "\n".join([*lines[: last + 1], "    ..."])

    @property
    def kernel_name(self) -> str:
        """The name of the kernel to write."""
        return self.skeleton.rpartition("def ")[2].partition("(")[0]

    @cached_property
    def solved(self) -> Kernel:
        """The solution, compiled from its text."""
        kernel = vars(compile_source(self.solution, f"<solution of {self.title}>"))[self.kernel_name]
        if not isinstance(kernel, Kernel):
            raise TypeError(f"{self.kernel_name} is no kernel")
        return kernel

    def arguments(self, size: tuple[int, ...]) -> tuple[Arrays, Arrays]:
        """Return inputs of a size, always the same ones, and the results that are right for them."""
        rng, known = np.random.default_rng(size), dict(zip(self.extents, size, strict=True))
        inputs = self.adjust({name: drawn(rng, [known[e] for e in shape]) for name, shape in self.shapes.items()})
        return inputs, self.expected(inputs)

    def size_text(self, size: tuple[int, ...]) -> str:
        """Return a size in words: `n = 40, k = 3`."""
        return ", ".join(f"{name} = {extent}" for name, extent in zip(self.extents, size, strict=True))


def poisoned(results: Arrays) -> Arrays:
    """Return arrays for results, which hold what no right result holds."""
    return {name: np.full_like(a, np.nan if a.dtype.kind == "f" else POISON) for name, a in results.items()}


def drawn(rng: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
    """Return random halves from -4 to 4, none of them 0: short to read, their sums exact, and none goes unnoticed."""
    size = rng.integers(1, 9, tuple(shape))
    return (np.where(rng.random(size.shape) < 0.5, -size, size) / 2).astype(np.float32)

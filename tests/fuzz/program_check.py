"""Run a random program, call by call, beside NumPy in f64; its derivatives beside differences of the NumPy one."""

# Arrays of any library, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import importlib
import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np

import tessera
from fuzz.check import Outcome
from fuzz.program_arrays import Tree, leaves, library_of, mapped, placed, shared, to_numpy
from fuzz.program_reference import REFERENCE, Value, valued
from fuzz.programs import Call, Program, arrays_of, number_of
from support.operators import Array
from tessera import graph, op
from tessera.core.errors.base import TesseraError
from tessera.core.settings import overridden
from tessera.session.session import resolve_target

STEP: Final = 1e-5
EPSILON: Final = {"f64": 2.0**-52, "f32": 2.0**-23}
NEAR: Final = {"f64": (1e-6, 1e-7), "f32": (1e-2, 1e-2)}
"""Relative and absolute errors of derivatives, beside differences."""
SAMPLES: Final = 4
_LOSS: Final = """
def loss(p, x, y, m, rate, n):
    results = called(p, x, y, m, rate, n)
    return sum([op.sum(op.sin(v * 1.3 + 0.2)) for v in results.values() if floating(v)])
"""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of one call.

    arrays: in NumPy, by name; placed_arguments: the same in the library; direction: of p and x, along which derivatives are compared
    """

    call: Call
    target: str
    library: str
    arrays: dict[str, Tree]
    placed_arguments: dict[str, Tree]
    direction: tuple[Tree, Tree]

    @property
    def numbers(self) -> tuple[Array, int]:
        """The number arguments."""
        return number_of(self.call), self.call.n

    def place(self, array: Array) -> Array:
        """Return an array of NumPy as one of the library."""
        return placed(array, self.library, self.target)

    @classmethod
    def of(cls, call: Call, dtype: str, target: str) -> "Arguments":
        """Return the arguments of a call in one of the libraries."""
        arrays, library = arrays_of(call, dtype), library_of(call.seed, target)
        placed_arguments = {name: mapped(lambda a: placed(a, library, target), tree) for name, tree in arrays.items()}
        placed_arguments["x"] = placed(arrays["x"], library, target, call.layout)
        source = np.random.default_rng(call.seed + 1)
        direction = mapped(lambda a: source.normal(size=a.shape).astype(a.dtype), [arrays["p"], arrays["x"]])
        return cls(
            call=call,
            target=target,
            library=library,
            arrays=arrays,
            placed_arguments=placed_arguments,
            direction=tuple(direction),
        )


def check_program(program: Program, target: str) -> Outcome:
    """Compare every call of a program, and its derivatives, with NumPy."""
    with overridden(target=target), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        run = _Run(program)
        for number, call in enumerate(program.calls):
            try:
                detail = run.call(Arguments.of(call, program.dtype, target))
            except TesseraError as mistake:
                kind = "refused" if mistake.code != "TSR-E900" else "fails"
                return Outcome(kind, f"call {number}: {mistake.code} {str(mistake).splitlines()[0]}")
            except Exception as error:  # noqa: BLE001 - what is no TesseraError is a finding
                return Outcome("fails", f"call {number}: {type(error).__name__}: {error}")
            if detail:
                return Outcome("differs", f"call {number}: {detail}")
    return Outcome("agrees", f"{run.compared} derivatives")


def compile_program(program: Program, target: str) -> Outcome:
    """Compile every kernel of the first call for a target that needs no device here."""
    run, arguments = _Run(program), Arguments.of(program.calls[0], program.dtype, "interpret")
    try:
        run.function.executable_for(*arguments.placed_arguments.values(), *arguments.numbers).kernels(
            resolve_target(target)
        )
    except TesseraError as mistake:
        kind = "limit" if mistake.code.startswith(("TSR-E7", "TSR-E6", "TSR-E8")) else "fails"
        return Outcome(kind, f"{mistake.code} {str(mistake).splitlines()[0]}")
    return Outcome("agrees")


class _Run:
    """The two programs as they go on.  compared: calls whose derivatives were compared"""

    def __init__(self, program: Program) -> None:
        self.program, self.compared = program, 0
        self.names, self.reference = program.namespace(op), program.namespace(REFERENCE)
        self.function = eval(program.decorator, {"graph": graph, "tessera": tessera})(self.names["f"])
        self.reference["called"] = self.reference["f"]
        self.names["called"] = self.function if program.seed % 2 else self.names["f"]
        for names in (self.names, self.reference):
            names["floating"] = _floating
            exec(_LOSS, names)
        self.gradient = tessera.value_and_grad(self.names["loss"], argnums=(0, 1))

    def call(self, arguments: Arguments) -> str:
        """Make one call, after the changes before it; return what differs."""
        for change in arguments.call.changes:
            exec(change, self.names)
            exec(change, self.reference)
        try:
            expected = self._expected(arguments, None)
        except (ValueError, IndexError, TypeError):  # a change made the program wrong
            return ""
        results = self.function(*arguments.placed_arguments.values(), *arguments.numbers)
        results_in_numpy = {name: to_numpy(each, arguments.library) for name, each in results.items()}
        after = mapped(lambda a: to_numpy(a, arguments.library), list(arguments.placed_arguments.values()))
        if not all(np.array_equal(a, b) for a, b in zip(leaves(after), leaves(arguments.arrays), strict=True)):
            return "an argument was written"
        return self._values(arguments, expected, results_in_numpy) or self._derivatives(arguments, expected)

    def _expected(self, arguments: Arguments, noise: np.random.Generator | None) -> dict[str, Value]:
        values = mapped(valued, arguments.arrays)
        for each in leaves(values):
            each.noise, each.size_of_errors = noise, 2 * EPSILON[self.program.dtype]
        return self.reference["f"](*values.values(), *arguments.numbers)

    def _values(self, arguments: Arguments, expected: dict[str, Value], results_in_numpy: dict[str, Array]) -> str:
        """Return what differs in values, beyond what roundings everywhere may move."""
        others = [self._expected(arguments, np.random.default_rng(seed)) for seed in range(SAMPLES)]
        for name, value in expected.items():
            right, got = np.asarray(value), results_in_numpy[name]
            if right.shape != got.shape or (right.dtype.kind == "f") != (got.dtype.kind not in "biu"):
                return f"{name}: {right.dtype} {right.shape}, here {got.dtype} {got.shape}"
            samples = [np.asarray(other[name]).astype(np.float64) for other in others]
            right, got = right.astype(np.float64), got.astype(np.float64)
            spread = np.max([np.abs(each - right) for each in samples], axis=0)
            # An array of numbers alone is f32 in a program of f64; a literal is rounded where the noise is none.
            epsilon = max(
                EPSILON[self.program.dtype], EPSILON["f32"] if results_in_numpy[name].dtype == np.float32 else 0.0
            )
            allowed = 8 * spread + 4 * epsilon * (2 * np.abs(right) + np.abs(right).max(initial=0.0)) + 1e-30
            wrong = np.isfinite(right) & np.isfinite(spread) & ~(np.abs(got - right) <= allowed)
            if wrong.any():
                index = tuple(int(each) for each in np.argwhere(wrong)[0])
                return f"{name}{list(index)}: {right[index]!r}, here {got[index]!r}, {int(wrong.sum())} of {right.size}"
        return ""

    # -- derivatives ---------------------------------------------------------------------------------------------

    def _derivatives(self, arguments: Arguments, expected: dict[str, Value]) -> str:
        """Return what differs between derivatives along the direction and differences."""
        difference = self._difference(arguments) if any(map(_floating, expected.values())) else None
        if difference is None:
            return ""
        self.compared += 1
        if self.program.smooth:
            detail = self._backwards(arguments, difference)
            if detail or arguments.call.seed % 3:
                return detail
        loss, placed_arguments = self.names["loss"], arguments.placed_arguments
        others = (placed_arguments["y"], placed_arguments["m"], *arguments.numbers)
        target = (
            "cuda"
            if arguments.library != "numpy" and "cuda" in str(getattr(placed_arguments["y"], "device", "cuda"))
            else "cpu"
        )
        direction = tuple(mapped(lambda a: placed(a, arguments.library, target), list(arguments.direction)))
        _, tangent = tessera.jvp(
            lambda p, x: loss(p, x, *others), (placed_arguments["p"], placed_arguments["x"]), direction
        )
        return self._close("jvp", float(to_numpy(tangent, arguments.library)), difference, abs(difference))

    def _backwards(self, arguments: Arguments, difference: float) -> str:
        """Compare the gradient, and with PyTorch that of its own `backward` through the results."""
        _, gradients = self.gradient(*arguments.placed_arguments.values(), *arguments.numbers)
        results_in_numpy = [to_numpy(each, arguments.library) for each in leaves(gradients)]
        if arguments.library == "numpy" and shared(results_in_numpy):
            return "gradients share memory"
        detail = self._along("grad", results_in_numpy, arguments, difference)
        if detail or arguments.library != "torch":
            return detail
        torch = importlib.import_module("torch")
        leaf = mapped(
            lambda a: a.detach().requires_grad_(), [arguments.placed_arguments["p"], arguments.placed_arguments["x"]]
        )
        results = self.function(
            *leaf, arguments.placed_arguments["y"], arguments.placed_arguments["m"], *arguments.numbers
        )
        terms = [torch.sin(each * 1.3 + 0.2).sum() for each in results.values() if each.requires_grad]
        if not terms:
            return "" if abs(difference) < NEAR["f64"][1] else "backward: the results carry no gradient"
        by = torch.autograd.grad(sum(terms), leaves(leaf), allow_unused=True, materialize_grads=True)
        return self._along("backward", [to_numpy(each, "torch") for each in by], arguments, difference)

    def _along(self, name: str, gradients: list[Array], arguments: Arguments, difference: float) -> str:
        pairs = zip(gradients, leaves(arguments.direction), strict=True)
        products = [float(np.sum(g.astype(np.float64) * d)) for g, d in pairs]
        return self._close(name, sum(products), difference, float(np.abs(products).sum()))

    def _close(self, name: str, got: float, right: float, scale: float) -> str:
        relative, absolute = NEAR[self.program.dtype]
        if abs(got - right) <= relative * (scale + abs(right)) + absolute:
            return ""
        return f"{name}: {right!r} by differences, here {got!r}"

    def _difference(self, arguments: Arguments) -> float | None:
        """Return the derivative of the loss along the direction, of order 4; None at kinks."""
        arrays = [arguments.arrays["p"], arguments.arrays["x"]]
        others = (valued(arguments.arrays["y"]), valued(arguments.arrays["m"]), *arguments.numbers)

        def at(t: float) -> float:
            moved = mapped(lambda a, d: valued(a.astype(np.float64) + t * d), arrays, list(arguments.direction))
            return float(self.reference["loss"](*moved, *others))

        middle, near, far = at(0.0), (at(STEP), at(-STEP)), (at(2 * STEP), at(-2 * STEP))
        slope, wide = (near[0] - near[1]) / (2 * STEP), (far[0] - far[1]) / (4 * STEP)
        sides = (near[0] - middle) / STEP, (middle - near[1]) / STEP
        scale = abs(slope) + 1
        kink = abs(slope - wide) > 1e-6 * scale or abs(sides[0] - sides[1]) > 1e-2 * scale
        return None if kink or not np.isfinite(slope) else (4 * slope - wide) / 3


def _floating(value: Array) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f"
    dtype = value.dtype
    return bool(dtype.is_float) if hasattr(dtype, "is_float") else "float" in str(dtype)

"""Check an answer: run it under the sanitizer at several sizes, compare with NumPy, and explain the first mistake."""

import warnings
from dataclasses import dataclass, replace
from html import escape
from typing import Final

import numpy as np

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import NoImplementation
from tessera.kernels.kernel import Configured, Kernel
from tessera.viz.error_view import error_html
from tessera.viz.tile_debugger.trace import Trace
from tessera.viz.tile_debugger.view import TilesView, tiles
from tessera_magics.puzzles import findings
from tessera_magics.puzzles.exercise import POISON, Arrays, Exercise, poisoned
from tessera_magics.puzzles.findings import Finding, Values

_MOST_SHOWN: Final = 6


@dataclass(frozen=True)
class Verdict:
    """The result of a check.

    finding: the first mistake, None where there is none; size: of the arrays it was found with, in words
    passed: sizes at which the answer was right; error: what was reported, if anything
    tiles: the answer's launch, step by step, where it could be recorded
    """

    title: str
    passed: tuple[str, ...]
    size: str = ""
    finding: Finding | None = None
    error: TesseraError | None = None
    tiles: TilesView | None = None

    @property
    def solved(self) -> bool:
        """Return whether the answer is right."""
        return self.finding is None

    @property
    def kind(self) -> str:
        """The kind of mistake in a few words, or "solved"."""
        return "solved" if self.finding is None else self.finding.kind

    def sentences(self) -> tuple[str, ...]:
        """Return the explanation."""
        if self.finding is None:
            return (f"Right for {'; '.join(self.passed)}, and no race, nor any access outside an array.",)
        before = (f"It is right for {'; '.join(self.passed)}.",) if self.passed else ()
        return (*self.finding.sentences, *before)

    def text(self) -> str:
        """Return the verdict as plain text."""
        lines = [self._headline(), *(f"  {each}" for each in self.sentences())]
        if self.error is not None:
            lines += [f"  {line}" for line in str(self.error).splitlines()]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the verdict as HTML; with the tiles view below where there is one."""
        body = "".join(f"<div>{escape(each)}</div>" for each in self.sentences())
        report = error_html(self.error) if self.error is not None else ""
        view = self.tiles.html() if self.tiles is not None else ""
        return f'<div style="margin:4px 0"><div><b>{escape(self._headline())}</b></div>{body}{report}</div>{view}'

    def _headline(self) -> str:
        if self.finding is None:
            return f"\N{CHECK MARK} {self.title}: solved"
        sign = "\N{WHITE CIRCLE}" if self.finding.kind == "not written yet" else "\N{MULTIPLICATION X}"
        return f"{sign} {self.title}: {self.finding.kind}, for {self.size}"

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}


def check(exercise: Exercise, answer: Kernel | Configured) -> Verdict:
    """Check an answer at every size of an exercise.  Raises TypeError for what is no kernel."""
    kernel = answer.kernel if isinstance(answer, Configured) else answer
    if not isinstance(kernel, Kernel):  # pyright: ignore[reportUnnecessaryIsInstance] - learners give anything
        raise TypeError(f"check() takes a kernel, what @kernel makes, and not {kernel!r}")
    passed: tuple[str, ...] = ()
    for size in exercise.sizes:
        attempt = _Attempt(exercise, answer, size)
        verdict = attempt.run()
        if verdict is not None:
            return replace(verdict, passed=passed)
        passed = (*passed, exercise.size_text(size))
    return Verdict(exercise.title, passed)


class _Attempt:
    """One size."""

    def __init__(self, exercise: Exercise, answer: Kernel | Configured, size: tuple[int, ...]) -> None:
        self.exercise, self.answer, self.size = exercise, answer, size
        self.inputs, self.expected = exercise.arguments(size)

    def run(self) -> Verdict | None:
        """Return a verdict where something is wrong."""
        given = {name: array.copy() for name, array in self.inputs.items()}
        results = poisoned(self.expected)
        try:
            with warnings.catch_warnings():
                # Elements that are never written are explained below, in the words of the puzzle.
                warnings.simplefilter("ignore", RuntimeWarning)
                _sanitized(self.answer)(*given.values(), *results.values())
        except NoImplementation:
            return self._wrong(self._missing())
        except TesseraError as error:
            return self._wrong(findings.of_error(error), error, self._recorded())
        for name, array in given.items():
            if not np.array_equal(array, self.inputs[name]):
                text = f"{name} is an input, and the kernel changed it: write to {', '.join(results)} only."
                return self._wrong(Finding("changed input", (text,)), view=self._recorded())
        return self._compare(results)

    def _compare(self, results: Arrays) -> Verdict | None:
        view = self._recorded()
        trace = view.trace if view is not None else None
        for position, (name, got) in enumerate(results.items()):
            called = _parameter(self._kernel(), len(self.inputs) + position, name)
            finding = self._difference(called, got, self.expected[name], trace)
            if finding is not None:
                return self._wrong(finding, view=view)
        finding = self._manner(trace) if trace is not None else None
        return self._wrong(finding, view=view) if finding is not None else None

    def _difference(self, name: str, got: Values, expected: Values, trace: Trace | None) -> Finding | None:
        tolerance = self.exercise.tolerance
        exact = expected.dtype.kind != "f"
        right = got == expected if exact else np.isclose(got, expected, rtol=tolerance, atol=tolerance)
        if right.all():
            return None
        unwritten = ~right & (got == POISON if exact else np.isnan(got)) & ~_written(trace, name, got.shape)
        if unwritten.any():
            return findings.of_unwritten(name, unwritten)
        return findings.of_difference(name, got, expected, ~right, trace)

    def _manner(self, trace: Trace) -> Finding | None:
        """Find what the exercise asks for beside right results: operations, and how often elements are read."""
        for name, most in self.exercise.reads.items():
            called = _parameter(self._kernel(), list(self.inputs).index(name), name)
            array = next(n for n, known in enumerate(trace.arrays) if known.name == called)
            touched = [touch.elements for _, touch in trace.touches(array) if not touch.writes]
            times = np.bincount(np.concatenate(touched), minlength=trace.arrays[array].size)
            if times.max() > most:
                place = findings.element(called, trace.arrays[array].shape, int(times.argmax()))
                lines = {trace.steps[s].line for s, touch in trace.touches(array) if not touch.writes}
                text = f"The values are right, but {place} is read {times.max()} times, and {most} is allowed."
                where = f"These lines read {called}: {', '.join(map(str, sorted(lines)))}. Keep it in a variable."
                return Finding("reads too often", (text, where))
        program = self._kernel().program((*self.inputs.values(), *self.expected.values()))
        missing = [name for name in self.exercise.uses if name not in {op.opcode for op in program.body.walk()}]
        if missing:
            text = f"The values are right, but the kernel has no `tile.{missing[0]}`, which this puzzle is about."
            return Finding("missing operation", (text,))
        return None

    def _recorded(self) -> TilesView | None:
        """Record the launch without the sanitizer; None where it cannot even be run."""
        results = poisoned(self.expected)
        try:
            return tiles(self.answer, *(a.copy() for a in self.inputs.values()), *results.values())
        except TesseraError:  # the verdict has the same report already
            return None

    def _missing(self) -> Finding:
        told = [f"`{self._kernel().source.name}` has no body yet: replace the `...`. For example:"]
        arrays = {**self.inputs, **self.expected}
        for name, array in arrays.items():
            made = "should become" if name in self.expected else "is"
            head = ", ".join(findings.number(v) for v in array.flat[:_MOST_SHOWN])
            more = ", ..." if array.size > _MOST_SHOWN else ""
            shape = ", ".join(map(str, array.shape))
            told.append(f"{name}, of shape ({shape}), {made} {head}{more}")
        return Finding("not written yet", tuple(told))

    def _kernel(self) -> Kernel:
        return self.answer.kernel if isinstance(self.answer, Configured) else self.answer

    def _wrong(self, finding: Finding, error: TesseraError | None = None, view: TilesView | None = None) -> Verdict:
        return Verdict(self.exercise.title, (), self.exercise.size_text(self.size), finding, error, view)


def _sanitized(answer: Kernel | Configured) -> Kernel | Configured:
    if isinstance(answer, Configured):
        return replace(answer, kernel=_sanitized_kernel(answer.kernel), stream=None)
    return _sanitized_kernel(answer)


def _sanitized_kernel(kernel: Kernel) -> Kernel:
    return kernel.with_options(replace(kernel.options, sanitize=True))


def _parameter(kernel: Kernel, position: int, name: str) -> str:
    """Return what the learner calls a parameter."""
    names = kernel.function.__code__.co_varnames[: kernel.function.__code__.co_argcount]
    return names[position] if position < len(names) else name


def _written(trace: Trace | None, name: str, shape: tuple[int, ...]) -> Values:
    if trace is not None:
        for number, known in enumerate(trace.arrays):
            if known.name == name and not known.shared:
                return trace.marks(number) & 2 > 0
    return np.zeros(shape, np.bool_)

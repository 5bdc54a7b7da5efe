"""Random programs as people write them in a notebook: a function of operators, and calls with changes in between.

It closes over numbers, arrays, objects and helpers that change between its calls; its arguments are a dict of parameters,
arrays of other batches and layouts, indices, masks and numbers.
"""

# Arrays, nested in dicts and lists, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import random
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from fuzz.program_arrays import LAYOUTS, mapped
from fuzz.program_reference import REFERENCE, Value, valued
from fuzz.program_statements import STATEMENTS
from support.closure_programs import CHANGES, DEFINITIONS
from support.operators import Array

WIDTH: Final = 4
"""Extent of the last axis: that of the arrays that `closure_programs` closes over."""
LENGTH: Final = 3
BATCHES: Final = (2, 5, 3, 4, 7)
RATES: Final = ("0.5", "-0.0", "0.0", "2", "True", "np.float32(0.75)", "-1.5", "np.float64(0.3)", "1")
LIMIT: Final = 50.0
"""Greatest absolute value of a statement: larger ones say nothing about what follows."""
LARGEST: Final = 4096
"""Elements of a value at most."""
Templates: TypeAlias = tuple[tuple[tuple[str, ...], int], ...]
"""Statements, and how often each list of them is drawn from."""
PARAMETERS: Final = "p, x, y, m, rate, n"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call.

    changes: statements that run before it; seed: of its arrays; rate, n: text of the numbers
    """

    changes: tuple[str, ...]
    seed: int
    batch: int
    layout: str
    rate: str
    n: int


@dataclass(frozen=True, kw_only=True)
class Program:
    """A function, as text, and the calls of it.

    dtype: of its floats; decorator: text that makes a captured function of `f`; smooth: whether it can be differentiated
    backwards
    """

    seed: int
    text: str
    dtype: str
    decorator: str
    calls: tuple[Call, ...]
    smooth: bool

    def namespace(self, operators: Array) -> dict[str, Array]:
        """Return fresh globals with the function in them."""
        names = globals_of(operators)
        exec(compile(self.text, "<program>", "exec"), names)
        return names

    def script(self) -> str:
        """Return the program, to be read."""
        lines = [f"# {self.dtype}", f"f = {self.decorator}(f)"]
        for call in self.calls:
            lines += [*call.changes, f"f(...)  # batch {call.batch}, {call.layout}, rate {call.rate}, n {call.n}"]
        return self.text + "\n".join(lines) + "\n"


def globals_of(operators: Array) -> dict[str, Array]:
    """Return what `closure_programs` defines, beside operators."""
    names: dict[str, Array] = {"__name__": "a_notebook", "np": np, "op": operators}
    exec("import functools, math, types\n" + DEFINITIONS, names)
    return names


def arrays_of(call: Call, dtype: str) -> dict[str, Array]:
    """Return the arrays of a call in NumPy: parameters, x of [batch, LENGTH, WIDTH], indices y of [batch], a mask of [LENGTH]."""
    source = np.random.default_rng(call.seed)
    element = {"f32": np.float32, "f64": np.float64}[dtype]

    def floats(*shape: int) -> Array:
        return source.normal(size=shape).astype(element)

    parameters = {"w": floats(WIDTH, WIDTH), "b": floats(WIDTH), "layers": [floats(WIDTH), floats(WIDTH)]}
    x, y = floats(call.batch, LENGTH, WIDTH), source.integers(-LENGTH, LENGTH, call.batch)
    return {"p": parameters, "x": x, "y": y, "m": source.random(LENGTH) < 0.6}


def number_of(call: Call) -> Array:
    """Return the number argument of a call."""
    return eval(call.rate, {"np": np})


class World:
    """What the statements so far give for one call, in NumPy: it tells shapes, and what makes no sense."""

    def __init__(self, call: Call) -> None:
        self.names = globals_of(REFERENCE)
        self.names.update(mapped(valued, arrays_of(call, "f64")), rate=number_of(call), n=call.n)

    def runs(self, name: str, text: str) -> bool:
        """Return whether a statement gives an array of ordinary numbers, which is kept."""
        with np.errstate(all="ignore"):
            try:
                result = eval(text, self.names)
            except (ValueError, IndexError, TypeError, AttributeError, ArithmeticError):
                return False
        if not isinstance(result, np.ndarray) or not 0 < result.size <= LARGEST or result.ndim > 4:
            return False
        if result.dtype.kind == "f" and not (np.abs(result) <= LIMIT).all():
            return False
        self.names[name] = result if isinstance(result, Value) else valued(result)
        return True


class ProgramWriter:
    """Writes statements that make sense for a small batch and for a large one."""

    def __init__(self, source: random.Random, templates: Templates) -> None:
        self.random, self.templates = source, templates
        self.worlds = [World(call) for call in (_call(source, (), 2), _call(source, (), 5))]
        self.values = ["x"]
        self.statements: list[str] = []

    def value(self, kinds: str = "f") -> str:
        """Return the name of a value of floats, of integers or of bools, more likely a late one."""
        others = ["y", "m", *self.values]
        names = [name for name in others if self.worlds[0].names[name].dtype.kind in kinds]
        return names[-1 - min(int(self.random.expovariate(0.6)), len(names) - 1)]

    def number(self) -> str:
        return self.random.choice((
            "0.5", "rate", "scale", "2", "-1.5", "table[1]", "settings.rate", "nested['b']['c']", "float(steps[0])", "n",
            "np.float32(0.25)", "Config.rate", "len(table)", "math.pi / 4", "True", "1 / 3", "pair[1][0]", "np.float64(0.7)",
        ))  # fmt: skip

    def filled(self, template: str) -> str:
        """Return a template with names in it: {f} floats, {g} other floats, {i} integers, {b} bools, {c} a number."""
        for slot, draw in (
            ("{f}", self.value), ("{g}", self.value), ("{i}", lambda: self.value("iu")), ("{b}", lambda: self.value("b")),
            ("{c}", self.number), ("{a}", lambda: str(self.random.choice((-1, -1, 0, 1)))),
            ("{k}", lambda: str(self.random.randint(-LENGTH, LENGTH - 1))),
        ):  # fmt: skip
            template = template.replace(slot, draw()) if slot in template else template
        return template

    def add(self) -> None:
        """Add a statement; several tries."""
        name = f"v{len(self.statements)}"
        for _ in range(40):
            templates = self.random.choices([each for each, _ in self.templates], [each for _, each in self.templates])[
                0
            ]
            text = self.filled(self.random.choice(templates))
            if all(world.runs(name, text) for world in self.worlds):
                self.values.append(name)
                self.statements.append(f"    {name} = {text}\n")
                return

    def text(self) -> str:
        """Return the function: its last value, and perhaps another."""
        results = [self.values[-1], *([self.random.choice(self.values)] if self.random.random() < 0.4 else [])]
        returned = ", ".join(f"'{'ab'[k]}': {name}" for k, name in enumerate(results))
        return f"def f({PARAMETERS}):\n{''.join(self.statements)}    return {{{returned}}}\n"


def _call(source: random.Random, changes: tuple[str, ...], batch: int) -> Call:
    return Call(changes=changes, seed=source.randrange(1 << 30), batch=batch, layout=source.choice(LAYOUTS),
                rate=source.choice(RATES), n=source.randint(1, 2))  # fmt: skip


def _change(source: random.Random) -> str:
    """Return a statement that changes what the function closes over."""
    text = source.choice(CHANGES)
    numbers = (0.5, 0.75, 1.25, 2.0, -1.5)
    while "{" in text:
        array = f"np.array({[source.choice(numbers) for _ in range(WIDTH)]}, np.float32)"
        text = text.replace("{f}", repr(source.choice(numbers)), 1)
        text = text.replace("{i}", repr(source.randint(1, 4)), 1).replace("{a}", array, 1)
    return text


def program_of(seed: int, templates: Templates = STATEMENTS) -> Program:
    """Return the program of a seed."""
    source = random.Random(seed)
    writer = ProgramWriter(source, templates)
    for _ in range(source.randint(2, 8)):
        writer.add()
    text = writer.text()
    calls = [_call(source, (), source.choice(BATCHES))]
    for _ in range(source.randint(2, 4)):
        changes = tuple(_change(source) for _ in range(source.randint(0, 2)))
        batch = calls[-1].batch if source.random() < 0.7 else source.choice(BATCHES)
        calls.append(_call(source, changes, batch))
        if source.random() < 0.5:  # numbers as before, so that only closures and arrays differ
            calls[-1] = Call(changes=changes, seed=calls[-1].seed, batch=batch, layout=calls[-2].layout,
                             rate=calls[-2].rate, n=calls[-2].n)  # fmt: skip
    return Program(
        seed=seed, text=text, dtype=source.choice(("f64", "f64", "f32")), calls=tuple(calls), smooth="while_" not in text,
        decorator=source.choice(("graph.module('f')", "tessera.jit")),
    )  # fmt: skip

"""Random kernels: a seed gives the text and the arguments of one.

All arithmetic is exact or rounded correctly, and every element is written once or in order, so targets have no choice.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fuzz.arrays import DTYPES, FLOATS, INTEGERS, READ_VIEWS, VALUES, WRITTEN_VIEWS, Array

SMALL: Final = (0, 1, 2, 3, 7, 16, 31, 33, 64, 65, 100, 129, 257)
LARGE: Final = (1 << 20, (1 << 20) + 1, 1_234_567, 700_001)
BLOCKS: Final = (1, 2, 3, 7, 16, 32, 33, 64, 100, 128)


@dataclass(frozen=True)
class Case:
    """A kernel's text, its arguments and the extents of their symbols."""

    seed: int
    text: str
    arrays: tuple[Array, ...]
    extents: dict[str, int]

    def arguments(self) -> list[np.ndarray]:
        """Fresh arguments, the same ones each time."""
        return [array.make(self.extents, self.seed) for array in self.arrays]

    def smaller(self) -> "list[Case]":
        """The same kernel of simpler arguments, one change each."""
        found: list[Case] = [replace(self, extents={**self.extents, name: size}) for name, now in self.extents.items()
                 for size in sorted({0, 1, 2, now // 2, now - 1}) if 0 <= size < now]  # fmt: skip
        for place, array in enumerate(self.arrays):
            plain = replace(array, view="plain"), replace(array, values="small")
            found += [replace(self, arrays=(*self.arrays[:place], one, *self.arrays[place + 1 :]))
                      for one in plain if one != array]  # fmt: skip
        return found


def case_of(seed: int, *, large: bool = False, first: bool = False) -> Case:
    """The kernel of `seed`; with `large`, some have extents that fill a GPU.

    first: of the forms and operations that seeds were drawn from at first: replays compare the kernels of old seeds
    """
    source = random.Random(seed)
    form = source.choice(_FORMS if first else (*_FORMS, _gathered))
    return form(_Writer(source, seed, large and source.random() < 0.3, first=first))


class _Writer:
    """Writes expressions over what can be read at one place; `reads` are texts that give a value, by kind."""

    def __init__(self, source: random.Random, seed: int, large: bool, *, first: bool = False) -> None:
        self.random = source
        self.seed = seed
        self.large = large
        self.first = first
        self.arrays: list[Array] = []
        self.reads: dict[str, list[str]] = {"f": [], "i": []}
        self.lanes = False
        self.group = ""
        self.budget = 0

    # -- choices -------------------------------------------------------------------------------------------------

    def pick(self, *options: object) -> str:
        return str(self.random.choice(options))

    def recent(self, *options: str) -> tuple[str, ...]:
        """Options that seeds were not drawn from at first."""
        return () if self.first else options

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def extent(self) -> int:
        return self.random.choice(LARGE if self.large else SMALL)

    def array(self, name: str, *shape: str, dtype: str = "", mutable: bool = False) -> Array:
        dtype = dtype or self.random.choice((*DTYPES, "f32", "f32", "i32"))
        views = WRITTEN_VIEWS if mutable else READ_VIEWS
        view = self.random.choice(views) if self.random.random() < 0.4 else "plain"
        made = Array(name, dtype, shape, view, self.random.choice(VALUES), mutable)
        self.arrays.append(made)
        return made

    def inputs(self, *shape: str) -> list[Array]:
        return [self.array(f"x{number}", *shape) for number in range(self.number(1, 3))]

    def readable(self, array: Array, place: str) -> None:
        self.reads["f" if array.dtype in FLOATS else "i"].append(f"{array.name}[{place}]")

    # -- expressions ---------------------------------------------------------------------------------------------

    def expression(self, dtype: str) -> str:
        """An expression that can be stored into an array of `dtype`."""
        self.budget = self.random.choice((2, 5, 12, 30))
        if self.random.random() < 0.04:  # long, and not deep
            terms = " + ".join(self._leaf("f") for _ in range(self.number(20, 150)))
            return f"tile.cast({terms}, {dtype})"
        kind = self.random.choice("fi")
        return f"tile.cast({self._value(kind)}, {dtype})"

    def _value(self, kind: str) -> str:
        self.budget -= 1
        if self.budget < 0 or self.random.random() < 0.12:
            return self._leaf(kind)
        return (self._float if kind == "f" else self._integer)()

    def _leaf(self, kind: str) -> str:
        if self.reads[kind] and self.random.random() < 0.75:
            return self.random.choice(self.reads[kind])
        other = "i" if kind == "f" else "f"
        if self.reads[other] and self.random.random() < 0.5:
            return f"tile.cast({self.random.choice(self.reads[other])}, {self.pick(*(FLOATS if kind == 'f' else INTEGERS))})"
        if kind == "f":
            return self.pick("0.0", "-0.0", "1.0", "-2.5", "0.1", "3.0", "1e30")
        return self.pick("0", "1", "2", "3", "7", "100")

    def _float(self) -> str:
        value = self._value
        match self.pick("op", "op", "op", "op", "extreme", "unary", "fma", "where", "cast", "div"):
            case "op":
                return f"({value('f')} {self.pick('+', '-', '*')} {value('f')})"
            case "div":
                right = value("f")
                return f"({value('f')} {self.pick('/', '//', '%')} {'3.0' if right in ('0.0', '-0.0') else right})"
            case "extreme":
                return f"tile.{self.pick('maximum', 'minimum')}({value('f')}, {value('fi'[self.number(0, 1)])})"
            case "unary":
                return self.pick("(-{})", "abs({})", "tile.floor({})", "tile.ceil({})", "tile.sqrt(abs({}))").format(
                    value("f")
                )
            case "fma":
                return f"tile.fma({value('f')}, {value('f')}, {value('f')})"
            case "where":
                return self._where("f")
            case _:
                return f"tile.cast({value('fi'[self.number(0, 1)])}, {self.pick(*FLOATS)})"

    def _integer(self) -> str:
        value = self._value
        match self.pick("op", "op", "op", "bits", "shift", "extreme", "unary", "where", "cast", "div"):
            case "op":
                return f"({value('i')} {self.pick('+', '-', '*')} {value('i')})"
            case "div":
                right = value("i")
                return f"({value('i')} {self.pick('//', '%')} {'3' if right == '0' else right})"
            case "bits":
                return f"({value('i')} {self.pick('&', '|', '^')} {value('i')})"
            case "shift":
                return f"({value('i')} {self.pick('<<', '>>')} {self.pick('1', '3', '7')})"
            case "extreme":
                return f"tile.{self.pick('maximum', 'minimum', *self.recent('mulhi'))}({value('i')}, {value('i')})"
            case "unary":
                return self.pick("(~{})", "abs({})").format(value("i"))
            case "where":
                return self._where("i")
            case _:
                return f"tile.cast({value('fi'[self.number(0, 1)])}, {self.pick(*INTEGERS)})"

    def _where(self, kind: str) -> str:
        if self.lanes and self.random.random() < 0.5:
            return f"({self._value(kind)} if {self.condition()} else {self._value(kind)})"
        return f"tile.where({self.condition()}, {self._value(kind)}, {self._value(kind)})"

    def condition(self) -> str:
        """A comparison, or several."""
        kind = self.random.choice("fi")
        test = f"({self._value(kind)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self._value(kind)})"
        if self.random.random() < 0.25:
            joint = self.pick("and", "or") if self.lanes else self.pick("&", "|")
            return f"({test} {joint} {self.condition()})"
        return test

    def case(self, lines: list[str], extents: dict[str, int]) -> Case:
        head = f"@kernel{self.group}\ndef k({', '.join(array.annotation() for array in self.arrays)}):\n"
        return Case(self.seed, head + "".join(f"    {line}\n" for line in lines), tuple(self.arrays), extents)


def _blocks(w: _Writer) -> Case:
    """One or more loops over blocks of one axis, each of statements that go on from what the last one wrote."""
    extents = {"n": w.extent()}
    reads = w.inputs("n")
    lines: list[str] = []
    for loop in range(1 if w.random.random() < 0.6 else w.number(2, 3)):
        out = w.array(f"y{loop}", "n", mutable=True)
        step = w.random.choice(BLOCKS if not w.large else (64, 128, 1000))
        if extents["n"] <= 300 and w.random.random() < 0.15:
            body, indent = "", ""
            place = ":"
        else:
            body, indent, place = f"for t in tile.range(n, step={step}):", "    ", f"t:t+{step}"
            lines.append(body)
        w.reads = {"f": [], "i": []}
        for array in [*reads, *w.arrays[len(reads) :]]:
            w.readable(array, place)
        for array in reads if place != ":" else ():
            offset = w.number(-9, 9)
            if offset and w.random.random() < 0.5:
                w.readable(array, f"t{offset:+}:t{offset:+}+{step}")
                around, kind = f"{array.name}[t{offset:+}:t{offset:+}+{step}]", "f" if array.dtype in FLOATS else "i"
                w.reads[kind].append(f"tile.fill({around}, {w.pick('1', '3')})")
                w.reads["i"].append(f"tile.where(tile.valid({around}), 2, 5)")
                w.readable(array, w.pick("-1", "0"))
        for number in range(w.number(0, 3)):
            lines.append(f"{indent}a{loop}{number} = {w.expression(w.pick(*DTYPES))}")
            w.reads["f"].append(f"tile.cast(a{loop}{number}, f32)")
        lines.append(f"{indent}{out.name}[{place}] = {w.expression(out.dtype)}")
    return w.case(lines, extents)


def _carried(w: _Writer) -> Case:
    """A loop that carries a tile and a number, and what they are after it."""
    w.large = False
    extents = {"n": w.extent()}
    reads = w.inputs("n")
    step = w.random.choice(BLOCKS)
    if w.random.random() < 0.4:  # sums into one place
        out = w.array("y", "o", dtype=w.pick("f32", "i32", "f64"), mutable=True)
        for array in reads:
            w.readable(array, f"t:t+{step}")
        lines = [
            f"for t in tile.range(n, step={step}):",
            f"    {out.name}[0] += tile.cast(tile.sum({w.expression('f32')}), {out.dtype})",
        ]
        return w.case(lines, {**extents, "o": 1})
    tile_out, one = w.array("y", "s", dtype="f32", mutable=True), w.array("z", "o", dtype="f32", mutable=True)
    for array in reads:
        w.readable(array, f"t:t+{step}")
    lines = [f"acc = tile.zeros(({step},))", "total = 0.0", f"for t in tile.range(n, step={step}):",
             f"    part = {w.expression('f32')}", f"    acc = {w.pick('acc + part', 'tile.maximum(acc, part)', 'acc * 0.5 + part')}",
             f"    total = total + tile.{w.pick('sum', 'max', 'min')}(part)",
             f"{tile_out.name}[0:{step}] = acc", f"{one.name}[0] = total"]  # fmt: skip
    return w.case(lines, {**extents, "s": step, "o": 1})


def _rows(w: _Writer) -> Case:
    """Blocks of rows of matrices: windows, reductions along an axis, a turned store."""
    rows, columns = w.random.choice(SMALL), w.random.choice((0, 1, 2, 5, 16, 33, 64, 130))
    if w.large:
        rows = w.random.choice((20_000, 33_333))
    reads = w.inputs("m", "n")
    step = w.random.choice((1, 2, 4, 8, 5))
    place = f"r:r+{step}, :"
    for array in reads:
        w.readable(array, place)
        if w.random.random() < 0.3 and columns:
            down, right = w.number(-2, 2), w.number(0, 5)
            w.readable(array, f"r{down:+}:r{down:+}+{step}, {right}:{right + columns}")
    lines = [f"for r in tile.range(m, step={step}):", f"    a = {w.expression('f32')}"]
    kind = w.pick("sum", "max", "min")
    match w.pick("keep", "rows", "turn", "both", *w.recent("best", "scan")):
        case "rows":
            out = w.array("y", "m", mutable=True)
            lines.append(f"    {out.name}[r:r+{step}] = tile.cast(tile.{kind}(a, axis=1), {out.dtype})")
        case "best":
            out = w.array("y", "m", dtype=w.pick("i64", "i32"), mutable=True)
            lines.append(
                f"    {out.name}[r:r+{step}] = tile.cast(tile.arg{w.pick('max', 'min')}(a, axis=1), {out.dtype})"
            )
        case "scan":
            out = w.array("y", "m", "n", dtype="f32", mutable=True)
            lines.append(f"    {out.name}[{place}] = tile.cum{w.pick('max', 'min', 'sum')}(a, axis={w.number(0, 1)})")
        case "turn":
            out = w.array("y", "n", "m", dtype="f32", mutable=True)
            lines.append(f"    {out.name}[:, r:r+{step}] = a.T")
        case "both":
            out = w.array("y", "m", "n", mutable=True)
            w.reads["f"] += [f"tile.{kind}(a, axis=1, keepdims=True)", f"tile.{kind}(a, axis=0, keepdims=True)", "a"]
            lines.append(f"    {out.name}[{place}] = {w.expression(out.dtype)}")
        case _:
            out = w.array("y", "m", "n", mutable=True)
            lines.append(f"    {out.name}[{place}] = tile.cast(a - tile.{kind}(a, axis=1, keepdims=True), {out.dtype})")
    return w.case(lines, {"m": rows, "n": columns})


def _gathered(w: _Writer) -> Case:
    """Rows that a tile of indices tells, read or written, some of them outside."""
    w.large = False
    ids = w.array("ids", "n", dtype=w.pick("i32", "i64", "i8"))
    w.arrays[:] = [replace(ids, values="small")]
    table, step, width = w.array("x0", "m", "c"), w.random.choice((1, 4, 16, 33)), w.random.choice((1, 5, 16, 64))
    extents = {"n": w.random.choice((0, 1, 7, 33, 64)), "m": w.random.choice((0, 1, 3, 17)), "c": width}
    place, rows = f"r:r+{step}, 0:{width}", f"ids[r:r+{step}], 0:{width}"
    if w.random.random() < 0.6:
        w.readable(table, rows)
        out = w.array("y", "n", "c", mutable=True)
        return w.case(
            [f"for r in tile.range(n, step={step}):", f"    {out.name}[{place}] = {w.expression(out.dtype)}"], extents
        )
    source, out = w.array("x1", "n", "c"), w.array("y", "m", "c", mutable=True)
    w.readable(source, place)
    value = w.expression(out.dtype)
    write = f"y[{rows}] = {value}" if w.random.random() < 0.5 else f"tile.scatter_add(y[{rows}], {value})"
    return w.case([f"for r in range(0, n, {step}):", f"    {write}"], extents)


def _whole(w: _Writer) -> Case:
    """Whole arrays as tiles, of extents down to 0, and reductions of them."""
    extents = {name: w.random.choice((0, 1, 2, 5, 9, 17)) for name in "mn"}
    for array in w.inputs("m", "n"):
        w.readable(array, ":, :")
    lines = [f"a = {w.expression('f32')}"]
    kind, axis = w.pick("sum", "max", "min"), w.number(0, 2)
    out = w.array("y", *(("n",), ("m",), ("m", "n"))[axis], mutable=True)
    result = f"tile.{kind}(a, axis={axis})" if axis < 2 else f"a - tile.{kind}(a)"
    lines.append(f"{out.name}[{', '.join(':' * len(out.shape))}] = tile.cast({result}, {out.dtype})")
    return w.case(lines, extents)


def _product(w: _Writer) -> Case:
    """Products of blocks, summed in order in exact steps."""
    m, n, k = (w.random.choice((1, 3, 16, 33, 64)) for _ in range(3))
    bm, bn, bk = (w.random.choice((1, 4, 16, 32)) for _ in range(3))
    dtype = w.pick("f32", "f16", "bf16", "i8", "f64")
    a, b = w.array("x0", "m", "k", dtype=dtype), w.array("x1", "k", "n", dtype=dtype)
    w.arrays[:] = [replace(a, values="small"), replace(b, values="small")]
    kind = {"i8": "i32", "f64": "f64"}.get(dtype, "f32")
    w.array("y", "m", "n", dtype=kind, mutable=True)
    lines = [f"for i in tile.range(m, step={bm}):", f"    for j in tile.range(n, step={bn}):",
             f"        acc = tile.zeros(({bm}, {bn}), {kind})", f"        for l in range(0, k, {bk}):",
             f"            acc = tile.dot(x0[i:i+{bm}, l:l+{bk}], x1[l:l+{bk}, j:j+{bn}], acc, exact=True)",
             f"        y[i:i+{bm}, j:j+{bn}] = acc"]  # fmt: skip
    return w.case(lines, {"m": m, "n": n, "k": k})


def _control(w: _Writer, read: Callable[[], None], out: Array, place: str, indent: str) -> list[str]:
    """Statements of one lane: branches, loops, a loop that ends early; then the result."""
    read()
    lines: list[str] = []
    for number in range(w.number(0, 4)):
        name = f"a{number}"
        lines.append(f"{indent}{name} = {w.expression('f32')}")
        match w.pick("plain", "if", "for", "while", "break"):
            case "if":
                lines += [f"{indent}if {w.condition()}:", f"{indent}    {name} = {w.expression('f32')}"]
                if w.random.random() < 0.5:
                    lines += [f"{indent}else:", f"{indent}    {name} = {name} + 1.0"]
            case "for":
                lines += [f"{indent}for v{number} in range({w.number(0, 2)}, {w.number(0, 6)}):",
                          f"{indent}    {name} = {name} * 0.5 + {w.expression('f32')}"]  # fmt: skip
            case "while":
                lines += [f"{indent}c{number} = {w.number(0, 5)}", f"{indent}while c{number} > 0:",
                          f"{indent}    {name} = {w.expression('f32')}", f"{indent}    c{number} = c{number} - 1"]  # fmt: skip
            case "break":
                lines += [f"{indent}for v{number} in range(6):", f"{indent}    {name} = {name} + {w.expression('f32')}",
                          f"{indent}    if {w.condition()}:", f"{indent}        break"]  # fmt: skip
            case _:
                pass  # the expression alone
        w.reads["f"].append(name)
    return [*lines, f"{indent}{out.name}[{place}] = {w.expression(out.dtype)}"]


def _lanes(w: _Writer) -> Case:
    """Lanes of one axis: guards, neighbours inside and outside, control flow."""
    w.lanes = True
    w.group = w.pick("", "", " tile[(32,)]", " tile[(96,)]")
    reads = w.inputs("n")
    out = w.array("y", "n", mutable=True)

    def read() -> None:
        for array in reads:
            w.readable(array, "i")
            w.readable(array, f"i{w.number(-9, 9):+}" if w.random.random() < 0.4 else "i")
        w.reads["i"] += ["i", "n"]

    lines = [
        f"i = {'launch.thread_id()' if w.group else 'tile.linear_id()'}",
        "if i < n:",
        *_control(w, read, out, "i", "    "),
    ]
    return w.case(lines, {"n": w.extent()})


def _plane(w: _Writer) -> Case:
    """Lanes of two axes, guarded together."""
    w.lanes = True
    w.group = w.pick("", " tile[(4, 32)]", " tile[(16, 8)]", " tile[(1, 64)]")
    reads = w.inputs("h", "w")
    out = w.array("y", "h", "w", mutable=True)

    def read() -> None:
        for array in reads:
            w.readable(array, "i, j")
            w.readable(array, f"i{w.number(-2, 2):+}, j{w.number(-2, 2):+}")
        w.reads["i"] += ["i", "j"]

    guard = w.pick("i < h and j < w", "i < h and j < w and x0[i, j] == x0[i, j]", "j < w and i < h")
    extents = {"h": w.random.choice(SMALL), "w": w.random.choice(SMALL)} if not w.large else {"h": 1025, "w": 1031}
    lines = ["i, j = launch.thread_id(0), launch.thread_id(1)", f"if {guard}:", *_control(w, read, out, "i, j", "    ")]
    return w.case(lines, extents)


_FORMS: Final = (_blocks, _blocks, _blocks, _carried, _rows, _rows, _whole, _product, _lanes, _lanes, _plane)

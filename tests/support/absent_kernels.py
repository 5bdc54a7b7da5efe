"""Random tile kernels whose windows stick out of their arrays on any side: text, and arguments.

Numbers are multiples of small powers of two, so that sums and products have the same bits in any order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from frontend.kernels import array, build, scalar
from tessera.core.base.dtypes import f32, i64
from tessera.core.program.program import Program

SHAPES = ((8, 16), (16, 8), (4, 32), (8, 8), (16,), (2, 4, 16), (128,))
POISON = 99.0


@dataclass(frozen=True)
class Case:
    """One kernel: `x`, of which windows are loaded; `y`, larger, that is stored to; numbers that nobody knows."""

    text: str
    x: tuple[int, int]
    y: tuple[int, int]
    r: int
    c: int

    @property
    def program(self) -> Program:
        """The kernel, built for these shapes."""
        return build(self.text, array(f32, *self.x), array(f32, *self.y), scalar(i64), scalar(i64))

    def arguments(self) -> list[Any]:
        """Fresh arguments."""
        x = np.random.default_rng(self.x[0] + 100 * self.x[1]).integers(-6, 7, self.x).astype(np.float32)
        return [x, np.full(self.y, POISON, np.float32), np.int64(self.r), np.int64(self.c)]


class _Writer:
    """Statements so far, and the tiles they name, with their shapes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.tiles: dict[str, tuple[int, ...]] = {}

    def name(self, expression: str, shape: tuple[int, ...], indent: str = "    ") -> str:
        """Give an expression a name."""
        name = f"t{len(self.tiles)}"
        self.lines.append(f"{indent}{name} = {expression}")
        self.tiles[name] = shape
        return name

    def pick(self, shape: tuple[int, ...] | None = None) -> str:
        """A tile, of a shape; one is loaded where there is none."""
        known = [name for name, have in self.tiles.items() if shape in (None, have)]
        if not known:
            return self.load(shape or (8, 16))
        return self.draw(st.sampled_from(known))

    def start(self, name: str) -> str:
        """Where a window begins."""
        return self.draw(st.sampled_from((name, f"{name} + 3", f"{name} - 5", "0", "2", f"2 * {name}")))

    def load(self, shape: tuple[int, ...]) -> str:
        """A window of x."""
        if len(shape) == 1 and shape[0] <= 16:
            row, column = self.start("r"), self.start("c")
            # One index may be outside, too.
            slices = f"{row}, ({column}):({column}) + {shape[0]}"
        elif len(shape) == 2 and max(shape) <= 32:
            row, column = self.start("r"), self.start("c")
            slices = f"({row}):({row}) + {shape[0]}, ({column}):({column}) + {shape[1]}"
        else:
            return self.name(f"tile.reshape({self.pick((8, 16))}, {shape})", shape)
        if self.draw(st.integers(0, 9)) == 0:
            return self.name(f"tile.load(x[{slices}], other={self.draw(st.sampled_from((0.0, 2.0)))})", shape)
        return self.name(f"x[{slices}]", shape)

    def step(self) -> None:
        """One more tile."""
        kind = self.draw(st.sampled_from(_STEPS))
        kind(self)


def _unary(w: _Writer) -> None:
    t = w.pick()
    texts = ("{} * 2.0", "{} * -0.5", "{} + 1.0", "-{}", "abs({})", "tile.maximum({}, 1.0)", "tile.relu({})",
             "tile.cast(tile.cast({}, i32), f32)", "tile.cast(tile.cast({}, f64), f32)", "tile.floor({})")  # fmt: skip
    w.name(w.draw(st.sampled_from(texts)).format(t), w.tiles[t])


def _binary(w: _Writer) -> None:
    a = w.pick()
    b = w.pick(w.tiles[a])
    texts = ("{} + {}", "{} - {}", "tile.minimum({}, {})", "tile.maximum({}, {})")
    w.name(w.draw(st.sampled_from(texts)).format(a, b), w.tiles[a])


def _load(w: _Writer) -> None:
    w.load(w.draw(st.sampled_from(SHAPES)))


def _reshape(w: _Writer) -> None:
    t = w.pick()
    size = int(np.prod(w.tiles[t]))
    shapes = [s for s in SHAPES if int(np.prod(s)) == size]
    shape = w.draw(st.sampled_from([*shapes, (1, size), w.tiles[t]]))
    w.name(f"tile.reshape({t}, {shape})", shape)


def _transpose(w: _Writer) -> None:
    t = w.pick()
    w.name(f"tile.transpose({t})", w.tiles[t][::-1])


def _reduce(w: _Writer) -> None:
    t = w.pick()
    shape = w.tiles[t]
    axis = w.draw(st.integers(0, len(shape) - 1))
    kind = w.draw(st.sampled_from(("sum", "max", "min")))
    kept = tuple(1 if a == axis else e for a, e in enumerate(shape))
    found = w.name(f"tile.{kind}({t}, axis={axis}, keepdims=True)", kept)
    if w.draw(st.booleans()):
        # Of nothing, the greatest is -inf: finite again, so that no difference of two is NaN.
        bounded = f"tile.minimum(tile.maximum({found}, -64.0), 64.0)"
        w.name(f"{t} - tile.broadcast({bounded}, {shape})", shape)


def _where(w: _Writer) -> None:
    a = w.pick()
    shape = w.tiles[a]
    b = w.pick(shape) if w.draw(st.booleans()) else "7.0"
    c = w.pick(shape)
    condition = w.draw(st.sampled_from(("valid", "less", "index", "beyond", "scalar")))
    axis = len(shape) - 1
    index = f"tile.reshape(tile.arange(c, c + {shape[axis]}), {(1,) * axis + (shape[axis],)})"
    texts = {"valid": f"tile.valid({c})", "less": f"{c} < {a}", "index": f"{index} < x.shape[1]",
             "beyond": f"{index} >= x.shape[1]", "scalar": "r > 2"}  # fmt: skip
    first, second = (b, a) if condition == "beyond" else (a, b)
    w.name(f"tile.where({texts[condition]}, {first}, {second})", shape)


def _fill(w: _Writer) -> None:
    t = w.pick()
    w.name(f"tile.fill({t}, {w.draw(st.sampled_from((0.0, 3.0)))})", w.tiles[t])


def _dot(w: _Writer) -> None:
    a, b = w.load((8, 16)), w.load((16, 8))
    acc = w.draw(st.sampled_from(("", f", acc={w.pick((8, 8))}")))
    w.name(f"tile.dot({a}, {b}{acc})", (8, 8))


def _branch(w: _Writer) -> None:
    a = w.pick()
    b = w.pick(w.tiles[a])
    name = w.name(f"{a} + 1.0", w.tiles[a])
    w.lines.append(f"    if {w.draw(st.sampled_from(('r > 2', 'c < 4', 'r + 8 <= x.shape[0]')))}:")
    if w.draw(st.booleans()) and len(w.tiles[a]) == 2 and max(w.tiles[a]) <= 32:
        w.lines.append(f"        {name} = x[2 * r:2 * r + {w.tiles[a][0]}, c - 1:c - 1 + {w.tiles[a][1]}]")
    else:
        w.lines.append(f"        {name} = {b} * 2.0")


def _loop(w: _Writer) -> None:
    shape = w.draw(st.sampled_from([s for s in SHAPES if len(s) == 2]))
    start = w.pick(shape) if w.draw(st.booleans()) else f"tile.zeros({shape})"
    name = w.name(f"{start} + 0.0", shape)
    w.lines.append(f"    for k in range({w.draw(st.sampled_from(('0, 3', '0, r', 'r, 9, 4')))}):")
    window = w.draw(st.sampled_from((f"x[k:k + {shape[0]}, c:c + {shape[1]}]", f"x[r:r + {shape[0]}, c + 8 * k:c + 8 * k + {shape[1]}]")))  # fmt: skip
    texts = ("{n} += {w}", "{n} = {n} + {w}", "{n} = {w}", "{n} = tile.maximum({n}, {w})", "{n} -= {w}",
             "{n} = tile.where({w} > 0.0, {n}, {w})")  # fmt: skip
    w.lines.append("        " + w.draw(st.sampled_from(texts)).format(n=name, w=window))


def _store(w: _Writer) -> None:
    t = w.pick()
    shape = w.tiles[t]
    value, total = t, int(np.prod(shape))
    kind = w.draw(st.sampled_from(("tile", "valid", "sum", "max")))
    if kind == "valid":
        value = f"tile.cast(tile.valid({t}), f32)"
    if kind in ("sum", "max"):
        w.lines.append(f"    y[0, {w.draw(st.integers(0, 7))}] = tile.{kind}({t})")
        return
    if len(shape) == 2:
        row, column = w.start("r"), w.start("c")
        w.lines.append(f"    y[({row}):({row}) + {shape[0]}, ({column}):({column}) + {shape[1]}] = {value}")
    elif len(shape) == 1:
        w.lines.append(f"    y[{w.start('r')}, 1:1 + {total}] = {value}")
    else:
        w.lines.append(f"    y[2, 0:{total}] = tile.reshape({value}, ({total},))")


_STEPS = (_unary, _unary, _binary, _load, _reshape, _transpose, _reduce, _reduce, _where, _where, _fill, _dot, _branch,
          _loop, _store)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A kernel with everything it is called with."""
    w = _Writer(draw)
    w.load((8, 16))
    for _ in range(draw(st.integers(2, 10))):
        w.step()
    last = list(w.tiles)[-1]
    if len(w.tiles[last]) == 2:
        rows, columns = w.tiles[last]
        w.lines.append(f"    y[r:r + {rows}, c:c + {columns}] = {last}")
    else:
        w.lines.append(f"    y[1, 0] = tile.sum({last})")
    _store(w)
    text = "def k(x: f32[m, n], y: mut f32[p, q], r: i64, c: i64):\n" + "\n".join(w.lines) + "\n"
    size = st.integers(1, 20)
    x = draw(st.tuples(size, size))
    y = draw(st.sampled_from((x, (24, 40), (9, 17))))
    return Case(text, x, y, draw(st.integers(-6, 8)), draw(st.integers(-6, 8)))

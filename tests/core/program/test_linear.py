"""Linear forms and bounds of indices."""

from support.builder import Builder
from tessera.core.base.dtypes import f32
from tessera.core.program.linear import UNKNOWN, Bounds, Definitions, Linear


def test_bounds_of_an_inner_index():
    b = Builder("inner")
    y = b.array("y", f32, "n", mutable=True)
    with b.loop(b.const(0), b.dim("n"), b.const(32), names=("m",)) as outer:
        upper = b.value("min", b.dim("n"), b.value("add", outer.index, b.const(32)))
        with b.loop(outer.index, upper, b.const(5), names=("r",)) as inner:
            square = b.value("mul", inner.index, inner.index)
            b.write(y, b.const(1.0, f32), square)
    program = b.program()
    definitions = Definitions(program)
    loop = definitions.indices[outer.index]
    bounds = Bounds(loop, definitions)
    m = Linear(frozenset({(outer.index, 1)}), 0)
    extent = next(iter(bounds.of(upper).high[0].terms))
    assert bounds.of(inner.index).low == (m,)
    assert bounds.of(inner.index).high == (Linear(frozenset({extent}), -1), m.add(30))  # 30: the last of 0, 5, ... 31
    assert bounds.of(square) == UNKNOWN
    # Of the inner loop, the outer index is one of the things that stay as they are.
    assert Bounds(definitions.indices[inner.index], definitions).of(outer.index).exact == m


def test_the_same_number_made_twice():
    b = Builder("twice")
    first, second = (b.value("floordiv", b.dim("n"), b.const(3)) for _ in range(2))
    with b.loop(first, second, b.const(1)) as loop:
        pass
    definitions = Definitions(b.program())
    assert definitions.identity(first) == definitions.identity(second)
    bounds = Bounds(definitions.indices[loop.index], definitions)
    assert bounds.of(first).exact == bounds.of(second).exact

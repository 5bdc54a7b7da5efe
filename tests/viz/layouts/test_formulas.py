"""Formulas of layouts: evaluated, they say what the layout says, both ways."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.layouts import Layout, accumulator, blocked, coordinates, spread
from tessera.viz.layouts.formulas import axis_names, element_formula, place_formula


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """A layout that gives each bit of an element to a register, a lane or a warp, perhaps mixed with others."""
    shape = tuple(1 << draw(st.integers(0, 3)) for _ in range(draw(st.integers(1, 3))))
    bits = sum(extent.bit_length() - 1 for extent in shape)
    order = draw(st.permutations(range(bits)))
    bases = [1 << bit for bit in order]
    for one in range(bits):
        for other in range(one):
            if draw(st.integers(0, 5)) == 0:
                bases[one] ^= 1 << order[other]
    cut = sorted(draw(st.tuples(st.integers(0, bits), st.integers(0, bits))))
    return Layout(shape, tuple(bases[: cut[0]]), tuple(bases[cut[0] : cut[1]]), tuple(bases[cut[1] :]))


def evaluated(text: str, **known: int) -> dict[str, int]:
    found = dict(known)
    for part in text.split("; ", maxsplit=1)[0].split(", "):
        name, expression = part.split(" = ")
        found[name] = eval(expression.replace("/", "//"), {}, known)
    return found


@settings(max_examples=40, deadline=None)
@given(layouts())
def test_both_formulas_say_what_the_layout_says(layout: Layout):
    names = axis_names(layout.shape)
    forward, backward = element_formula(layout), place_formula(layout)
    for r in range(layout.count):
        for lane in range(1 << len(layout.lanes)):
            for warp in range(1 << len(layout.warps)):
                place = coordinates(layout.element(r, lane, warp), layout.shape)
                found = evaluated(forward, r=r, lane=lane, warp=warp)
                assert tuple(found[name] for name in names) == place
                back = evaluated(backward, **dict(zip(names, place, strict=True))) if backward else {}
                wanted = {"r": r, "lane": lane, "warp": warp}
                assert all(back.get(name, 0) == value for name, value in wanted.items())


def test_formulas_read_as_people_write_them():
    assert element_formula(accumulator((64, 32), 2)) == (
        "row = lane / 4 + 8 * (r / 2 % 2) + 16 * warp, col = r % 2 + 2 * (lane % 4) + 8 * (r / 4)"
    )
    assert place_formula(accumulator((16, 8), 0)) == "r = col % 2 + 2 * (row / 8), lane = col / 2 + 4 * (row % 8)"


def test_elements_that_several_lanes_hold():
    layout = spread((8,), [("lanes", 1), ("lanes", 2), ("lanes", 4)], 0)
    assert place_formula(layout) == "lane = i; 4 places hold each element"
    assert element_formula(blocked((64, 64), 4, 2)).startswith("row = lane / 16")

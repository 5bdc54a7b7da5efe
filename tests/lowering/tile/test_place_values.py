"""tile-place-values: what is computed where it is used, what is kept, and what may be written over."""

import re
from typing import Any

import pytest

from support.builder import Builder
from support.mlir import lowered
from support.programs import matmul, softmax_rows
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Program, Value
from tessera.lowering.base.attributes import from_attribute
from tessera.lowering.base.ir_walk import operations
from tessera.lowering.base.passes import Pass
from tessera.lowering.tile.expand_softmax import ExpandSoftmax
from tessera.lowering.tile.place_values import PlaceValues


def places(program: Program, *passes: Pass) -> list[tuple[str, str]]:
    """(operation, place) of everything that makes a tile, in order; `!` marks what replaces a carried tile."""
    module = lowered(program, *passes, PlaceValues())
    found: list[Any] = []
    for op in operations(module):
        if "tessera.place" in op.attributes:
            mark = "!" if "tessera.replaces" in op.attributes else ""
            found.append((re.sub(r"^\w+\.", "", op.name) + mark, str(from_attribute(op.attributes["tessera.place"]))))
    return found


class Kernel(Builder):
    def __init__(self):
        super().__init__("k")
        self.x = self.array("x", f32, 64, 64, mutable=True)
        self.y = self.array("y", f32, 64, 64, mutable=True)
        self.zero = self.const(0)

    def take(self, array: Value | None = None, start: Value | None = None):
        return self.load(array or self.x, [start or self.zero, self.zero], [64, 64])

    def give(self, value: Value, array: Value | None = None, start: Value | None = None):
        self.store(array or self.y, value, [start or self.zero, self.zero], [64, 64])


def test_a_product_accumulates_in_place():
    assert places(matmul(64, 64, 32)) == [
        ("splat", "virtual"), ("load", "virtual"), ("load", "virtual"), ("dot!", "scratch"),
    ]  # fmt: skip


def test_of_a_softmax_only_the_exponentials_are_kept():
    found = dict(places(softmax_rows(256, 8), ExpandSoftmax()))
    assert found == {
        "load": "virtual", "reduce": "scratch", "reshape": "virtual", "broadcast": "virtual", "subf": "virtual",
        "exp": "scratch", "constant": "virtual", "divf": "virtual", "mulf": "virtual",
    }  # fmt: skip


def test_cheap_values_are_computed_twice():
    k = Kernel()
    centred = k.value("sub", k.take(), k.full(k.const(1.0, f32), 64, 64))
    k.give(k.value("mul", centred, k.broadcast(k.reshape(k.reduce(centred, "sum", 1), 64, 1), 64, 64)))
    assert ("subf", "virtual") in places(k.program())


def test_expensive_values_read_once_are_virtual():
    k = Kernel()
    k.give(k.value("exp", k.take()))
    assert places(k.program()) == [("load", "virtual"), ("exp", "virtual")]


def test_expensive_values_are_kept_when_a_loop_reads_them():
    k = Kernel()
    e = k.value("exp", k.take())
    with k.loop(k.zero, k.const(4), k.const(1)) as loop:
        k.give(k.dot(e, k.take(k.x, loop.index)))
    assert ("exp", "scratch") in places(k.program())


@pytest.mark.parametrize(("written", "place"), [("x", "scratch"), ("y", "virtual")])
def test_a_load_is_kept_when_its_array_is_written_before_the_last_reader(written: str, place: str):
    k = Kernel()
    before = k.take()
    k.give(k.full(k.const(0.0, f32), 64, 64), k.x if written == "x" else k.y)
    k.give(before, k.y)
    assert places(k.program())[0] == ("load", place)


def test_an_update_in_place_reads_while_it_writes():
    k = Kernel()
    tile = k.take()
    k.give(k.value("add", tile, tile), k.x)
    assert places(k.program()) == [("load", "virtual"), ("addf", "virtual")]


@pytest.mark.parametrize("change", ["moved", "transposed"])
def test_an_update_of_other_elements_does_not(change: str):
    k = Kernel()
    tile = k.take()
    if change == "moved":
        k.give(tile, k.x, k.const(1))
    else:
        k.give(k.transpose(tile, 1, 0), k.x)
    assert places(k.program())[0] == ("load", "scratch")


def test_a_writer_of_the_same_loop_comes_before_the_next_reading():
    k = Kernel()
    tile = k.take()
    with k.loop(k.zero, k.const(4), k.const(1)):
        k.give(k.value("add", k.take(), tile), k.x)
    assert [p for n, p in places(k.program()) if n == "load"] == ["scratch", "virtual"]


def test_what_a_loop_hands_on_replaces_what_it_read():
    k = Kernel()
    with k.loop(k.zero, k.const(4), k.const(1), [k.take(), k.take(k.y)]) as loop:
        a, b = loop.carried
        total = k.value("add", a, b)
        loop.yields = (total, k.value("mul", b, total))
    assert [n for n, _ in places(k.program()) if n.endswith("!")] == ["addf!", "mulf!"]


def test_but_not_while_somebody_still_reads_it():
    k = Kernel()
    with k.loop(k.zero, k.const(4), k.const(1), [k.take(), k.take(k.y)]) as loop:
        a, b = loop.carried
        total = k.value("add", a, b)
        loop.yields = (total, k.value("sub", total, a))
    assert [n for n, _ in places(k.program()) if n.endswith("!")] == ["subf!"]


def test_nor_where_elements_trade_places():
    k = Kernel()
    with k.loop(k.zero, k.const(4), k.const(1), [k.take()]) as loop:
        (a,) = loop.carried
        loop.yields = (k.dot(k.take(), k.take(k.y), k.transpose(a, 1, 0)),)
    assert not [n for n, _ in places(k.program()) if n.endswith("!")]


def test_a_product_does_not_overwrite_its_own_factor():
    k = Kernel()
    with k.loop(k.zero, k.const(4), k.const(1), [k.take()]) as loop:
        (a,) = loop.carried
        loop.yields = (k.dot(a, k.take(k.y), a),)
    assert not [n for n, _ in places(k.program()) if n.endswith("!")]


def test_a_transpose_among_sums_is_kept_and_for_a_product_it_is_not():
    k = Kernel()
    turned = k.transpose(k.take(), 1, 0)
    k.give(k.value("add", turned, k.take(k.y)))
    assert ("transpose", "scratch") in places(k.program())
    k = Kernel()
    k.give(k.dot(k.take(), k.transpose(k.take(k.y), 1, 0)))
    assert ("transpose", "virtual") in places(k.program())


def test_a_long_chain_is_kept_now_and_then():
    k = Kernel()
    value = k.take()
    for _ in range(200):
        value = k.value("add", value, value)
    k.give(value)
    found = [place for name, place in places(k.program()) if name == "addf"]
    assert [number for number, place in enumerate(found) if place == "scratch"] == [5, 70, 135]


def test_a_load_is_kept_when_a_loop_writes_its_array_before_the_next_turn():
    k = Kernel()
    tile = k.take(k.y)
    with k.loop(k.zero, k.const(4), k.const(1)):
        k.give(tile, k.y)
    assert places(k.program())[0] == ("load", "scratch")

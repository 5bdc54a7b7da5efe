"""Launches that overlap, ordered by privileges alone: readers, writers, reductions, failures."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from tessera import dist
from tessera.api.index_launches.launch_order import overlapped_launches
from tessera.api.source_module import compile_source
from tessera.core.errors.catalog import ArgumentType

Part = NDArray[np.float32]


def tensor(value: float) -> dist.Tensor:
    x = dist.tensor((4,), dist.Block("tp"), dist.Mesh("tp", range(2)))
    x[...] = value
    return x


def over(point: Callable[..., None], *privileges: str) -> Callable[..., object]:
    """Launch a function whose parameters a, b, ... have these privileges."""
    kinds = {
        "read": tessera.Region[tessera.read],
        "write": tessera.Region[tessera.write],
        "reduce_sum": tessera.Region["reduce_sum"],
    }  # pyright: ignore[reportInvalidTypeArguments, reportUnknownVariableType]
    point.__annotations__.update({name: kinds[each] for name, each in zip("ab", privileges, strict=False)})
    return tessera.index_launch("tp")(point)


def test_readers_overlap():
    x = tensor(1)
    meeting = threading.Barrier(4, timeout=30)  # two points of two launches

    def meets(a: Part) -> None:
        meeting.wait()

    with overlapped_launches():
        over(meets, "read")(x)
        over(meets, "read")(x)
    assert not x.uses


def test_writers_are_ordered():
    x, y, z = tensor(1), tensor(0), tensor(0)
    slow = threading.Event()

    def first(a: Part, b: Part) -> None:
        assert slow.wait(30)
        b[...] = a + 1

    def second(a: Part, b: Part) -> None:
        b[...] = a * 10

    def independent(a: Part) -> None:
        slow.set()

    with overlapped_launches():
        over(first, "read", "write")(x, y)
        over(second, "read", "write")(y, z)  # waits for the first
        over(second, "read", "write")(z, x)  # waits for both: writes what the first reads
        over(independent, "read")(tensor(0))  # overlaps with the first, or that would wait for ever
        assert np.asarray(z).tolist() == [20] * 4  # reading waits
    assert np.asarray(x).tolist() == [200] * 4


def test_reductions_of_one_kind_compute_at_once_and_add_in_order():
    y = tensor(1e8)
    meeting = threading.Barrier(4, timeout=30)
    later = threading.Event()

    def slow(a: Part) -> None:
        meeting.wait()
        assert later.wait(30)
        a += np.float32(-1e8)

    def quick(a: Part) -> None:
        meeting.wait()
        a += np.float32(1)
        later.set()

    with overlapped_launches():
        over(slow, "reduce_sum")(y)
        over(quick, "reduce_sum")(y)
    assert np.asarray(y).tolist() == [1] * 4  # (1e8 - 1e8) + 1; the other order loses the 1


def test_what_depends_on_a_failed_launch_fails_too():
    x, y, z = tensor(1), tensor(2), tensor(3)

    def fails(a: Part, b: Part) -> None:
        raise ZeroDivisionError("first")

    def copies(a: Part, b: Part) -> None:
        b[...] = a

    with pytest.raises(ZeroDivisionError, match="first"), overlapped_launches():  # noqa: PT012 - its end raises
        over(fails, "read", "write")(x, y)
        over(copies, "read", "write")(y, z)
    assert (np.asarray(y).tolist(), np.asarray(z).tolist()) == ([2] * 4, [3] * 4)


def test_a_mistake_stands_where_the_launch_was_written():
    x, y = tensor(1), tensor(0)
    add = tessera.compile_source("@kernel\ndef add(a: f64[n], b: mut f32[n]):\n    b[:] = a\n").add
    with pytest.raises(ArgumentType, match="a holds f64") as raised, overlapped_launches():
        tessera.index_launch("tp")(add)(x, y)
    assert raised.value.span.file in (__file__, add.source.source.name)


def test_an_exception_in_the_with_stops_the_launches():
    x = tensor(1)
    began = threading.Event()
    ended: list[str] = []

    def spins(a: Part) -> None:
        began.set()
        try:
            while True:
                pass
        except KeyboardInterrupt:
            ended.append("stopped")
            raise

    with pytest.raises(KeyError, match="mine"), overlapped_launches():  # noqa: PT012 - inside of it
        over(spins, "read")(x)
        assert began.wait(30)
        raise KeyError("mine")
    assert ended == ["stopped"] * 2


def test_outside_of_a_scope_a_launch_has_ended():
    x, y = tensor(1), tensor(0)

    def copies(a: Part, b: Part) -> None:
        b[...] = a

    over(copies, "read", "write")(x, y)
    assert np.asarray(y).tolist() == [1] * 4
    assert (x.uses, y.uses) == ([], [])


KERNELS = """
@kernel(target="interpret")
def double(A: mut f32[n/tp]):
    A[:] = 2 * A

@kernel(target="interpret")
def add_first(A: f32[n], B: mut f32[n/tp]):
    B[:] = B + A[0]
"""


def test_launches_that_copy_what_they_use_wait_for_no_launch_after_them():
    """Their own use of a tensor, and those of later launches, are noted before they begin."""
    module = compile_source(KERNELS)
    x, y = tensor(3), tensor(1)
    with overlapped_launches():
        for _ in range(2):
            tessera.index_launch("tp")(module.double)(x)  # a copy of what it updates
            tessera.index_launch("tp")(module.add_first)(x, y)  # gathers x, which the next launch writes
    assert np.asarray(x).tolist() == [12] * 4
    assert np.asarray(y).tolist() == [1 + 6 + 12] * 4

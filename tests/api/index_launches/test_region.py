"""`Region[read]`, `Region[write]`, `Region[reduce_sum]` on the parameters of `@jit` functions."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false

import numpy as np
import pytest

import tessera
from support.operators import TARGETS, close, drawn
from tessera import Region, read, reduce_sum, write
from tessera.api.index_launches.region import RegionOf, regions_of
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CannotTrace, OperandMismatch, ReadOnlyArray
from tessera.core.settings import overridden


def made(body: str, signature: str = "X: Region[read], Y: Region[write]"):
    return tessera.compile_source(f"@jit\ndef f({signature}):\n    {body}\n").f


def test_annotations():
    assert Region[read] == RegionOf("read")
    assert Region[reduce_sum] == RegionOf("reduce_sum")

    def function(x: "Region[read]", y: "tessera.Region[tessera.write]", z: int) -> None: ...

    function.__annotations__["w"] = Region[write]
    assert regions_of(function) == {"x": "read", "y": "write", "w": "write"}


def test_a_privilege_that_there_is_not():
    with pytest.raises(OperandMismatch, match=r"there is no Region\[append\]") as raised:
        Region["append"]
    assert "choose from read, write, reduce_sum" in str(raised.value)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("Y[:] = X * 2", lambda x: x * 2),
        ("Y[...] = X[0]", lambda x: np.broadcast_to(x[0], x.shape)),
        ("Y[:] = X[:, :1]", lambda x: np.broadcast_to(x[:, :1], x.shape)),
        ("Y[:] = 3", lambda x: np.full_like(x, 3)),
        ("Y[:] = X; Y[:] = Y + 1", lambda x: x + 1),
        ("Y[:] = cast(X, 'f64')", lambda x: x),
    ],
)
def test_writes(target: str, body: str, want: object):
    x, y = drawn((4, 5), np.float32), np.full((4, 5), np.nan, np.float32)
    with overridden(target=target):
        assert made(body)(x, y) is None
    assert callable(want)
    np.testing.assert_array_equal(y, want(x))


def test_writes_of_a_value_that_is_returned_too():
    x, y = drawn((4, 5), np.float32), np.zeros((4, 5), np.float32)
    got = made("Y[:] = X + 1; return Y, X - 1")(x, y)
    np.testing.assert_array_equal(got[0], x + 1)
    np.testing.assert_array_equal(got[1], x - 1)
    np.testing.assert_array_equal(y, x + 1)


@pytest.mark.parametrize("target", TARGETS)
def test_additions_are_rounded_once(target: str):
    x, y = drawn((4, 5), np.float32, 1), drawn((4, 5), np.float16, 2)
    want = (y + (x + x)).astype(np.float16)
    with overridden(target=target):
        made("Y += X; Y += X", "X: Region[read], Y: Region[reduce_sum]")(x, y)
    np.testing.assert_array_equal(y, want)


def test_views_of_arrays_are_written():
    x, whole = drawn((4, 5), np.float32), np.zeros((5, 8), np.float32)
    made("Y[:] = X")(x, whole.T[1:5, ::1])
    np.testing.assert_array_equal(whole.T[1:5], x)


def test_reading_what_is_written():
    x = drawn((4, 4), np.float32)
    y = x
    made("Y[:] = X @ X")(x, y)
    close(y, drawn((4, 4), np.float32).astype(np.float64) @ drawn((4, 4), np.float32), 4e-6)


def test_two_kinds_of_arguments():
    function = made("Y[:] = X * 2")
    for n in (3, 4, 3):
        x, y = drawn((n,), np.float32), np.zeros(n, np.float32)
        function(x, y)
        np.testing.assert_array_equal(y, 2 * x)


def test_a_captured_graph_writes_again():
    text = "@jit(capture_graph=True)\ndef f(X: Region[read], Y: Region[write]):\n    Y[:] = X * 2\n"
    function = tessera.compile_source(text).f
    x, y = drawn((6,), np.float32), np.zeros(6, np.float32)
    for _ in range(3):
        x += 1
        function(x, y)
        np.testing.assert_array_equal(y, 2 * x)
    assert len(function.graphs) == 1


@pytest.mark.parametrize(
    ("body", "signature", "kind", "message", "remedy"),
    [
        (
            "X[:] = Y",
            "X: Region[read], Y: Region[read]",
            CannotTrace,
            r"X is written, and it is Region\[read\]",
            "X: Region[write]",
        ),
        (
            "Y += X",
            "X: Region[read], Y: Region[write]",
            CannotTrace,
            r"Y is added to, and it is Region\[write\]",
            "Y: Region[reduce_sum]",
        ),
        (
            "Y[:] = X",
            "X: Region[read], Y: Region[reduce_sum]",
            CannotTrace,
            "Y is written, and it is",
            "Y: Region[write]",
        ),
        ("Y[1:] = X[1:]", "X: Region[read], Y: Region[write]", CannotTrace, "is a part", "write all of it"),
        (
            "Y[:] = X + Y",
            "X: Region[read], Y: Region[write]",
            CannotTrace,
            r"Y is read, and it is Region\[write\]",
            "Region[read]",
        ),
        ("Y[:] = X[:2]", "X: Region[read], Y: Region[write]", OperandMismatch, "does not fill Y", "give it that shape"),
        (
            "Y += X[:2]",
            "X: Region[read], Y: Region[reduce_sum]",
            OperandMismatch,
            "does not fill Y",
            "give it that shape",
        ),
    ],
)
def test_what_is_not_allowed(body: str, signature: str, kind: type[TesseraError], message: str, remedy: str):
    x, y = drawn((4, 5), np.float32, 1), drawn((4, 5), np.float32, 2)
    before = y.copy()
    with pytest.raises(kind, match=rf"^[^\n]*(?:{message})") as raised:
        made(body, signature)(x, y)
    assert remedy in str(raised.value)
    assert "^^^^" in str(raised.value)
    np.testing.assert_array_equal(y, before)


def test_an_array_that_is_read_only():
    x, y = drawn((4,), np.float32), np.zeros(4, np.float32)
    y.flags.writeable = False
    with pytest.raises(ReadOnlyArray):
        made("Y[:] = X")(x, y)


def test_values_of_another_graph_are_not_written():
    function = made("Y[:] = X * 2")
    with pytest.raises(CannotTrace, match="a value of a graph is not written"):
        tessera.graph.module(lambda x: function(x, x))(drawn((4,), np.float32))

"""Whatever is handed to Tessera, a mistake is a TesseraError: signatures, arguments, grids and settings, all mutated."""

import contextlib
import math
import pathlib
from collections.abc import Generator
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tessera import stream
from tessera.api.source_module import compile_source
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import (
    ArgumentCount,
    ArgumentType,
    BadGrid,
    BadSetting,
    CompilerCrash,
    SyntaxMistake,
    UnsupportedSyntax,
)
from tessera.core.settings import current, from_environment, overridden
from tessera.kernels.kernel import Kernel

Handed: TypeAlias = Any  # whatever there is, where something else belongs


class Odd:
    """An object of no use to a kernel."""

    def __repr__(self) -> str:
        return "<odd>"


NUMBERS = [True, False, np.bool_(True), 0, -1, 7, 2**31, 2**63, -(2**63), 2**70, 1.5, -0.0, math.nan, math.inf, 1e300,
           np.int8(3), np.uint64(2**64 - 1), np.float16(2.5), np.float64(1e300), np.array(3), np.array(True)]  # fmt: skip
OTHERS: list[object] = [None, "4", "", b"bytes", 1j, (), [], [1.0, 2.0], {}, set(), range(3), Odd(), Odd, len, ..., slice(1, 2),
          np.datetime64("2020-01-01"), np.str_("x"), pathlib.Path("x"), "\udc80", "a\0b"]  # fmt: skip


def arrays() -> list[object]:
    """Arrays that fit `x: f32[n]`, and all kinds that do not."""
    plain = np.arange(12, dtype=np.float32)
    frozen = plain.copy()
    frozen.flags.writeable = False
    return [
        plain, plain.copy(), np.zeros(0, np.float32), plain[::2], plain[::-1], plain.reshape(3, 4),
        plain.astype(np.float64), np.zeros(3, np.int32), np.zeros(3, bool), frozen, plain.astype(">f4"),
        np.zeros(3, "S4"), np.array([None, 1], object), np.zeros(3, [("a", "f4")]), np.zeros(3, "M8[s]"),
        np.zeros(3, np.complex64), np.frombuffer(b"x" * 13, np.uint8)[1:].view(np.float32), np.broadcast_to(plain[0], 5),
        bytearray(8), memoryview(bytearray(8)), np.zeros((2, 0, 3), np.float32),
    ]  # fmt: skip


EVERYTHING: list[Handed] = [*NUMBERS, *OTHERS, *arrays()]
HANDED = st.integers(0, len(EVERYTHING) - 1).map(EVERYTHING.__getitem__)  # hypothesis hashes what it samples from
PARAMETERS = st.sampled_from([
    "x", "x: f32", "x: f32[n]", "x: mut f32[n]", "y: mut f32[n, m]", "a: i32", "a: bool = True", "a: u8 = 300", "a=None",
    "b: f33[n]", "b: f32[]", "b: f32[0]", "b: f32[-1]", "b: f32[n + 1]", "b: f32[K/tp]", "*args", "**options", "*", "/",
    "c: tensor[f32]", 'c: Tensor["B", f32]', "c: 'f32[n]'", "c: '('", "c: lambda: 0", "c: mut", "c: mut[f32[n], 3]",
    "c: f32[n", "c f32", "c: f32[n] mut", "c: f32[x]", "tile", "x: bf16", "n", "b: f32[2**70]", "b: f32['n']", "b: f4[n]",
])  # fmt: skip


@contextlib.contextmanager
def mistakes() -> Generator[None]:
    """Accept a mistake of the user's; a crash of the compiler is ours."""
    try:
        yield
    except CompilerCrash:
        raise
    except TesseraError:
        pass


@pytest.fixture(scope="module")
def scale() -> Kernel:
    """A kernel that has been compiled for the CPU."""
    found = compile_source(
        "@kernel tile[(64,)]\ndef scale(x: f32[n], y: mut f32[n], a: i32, b: f32):\n"
        "    i = launch.thread_id()\n    if i < n: y[i] = x[i] * a + b\n"
    ).scale
    found(np.ones(4, np.float32), np.ones(4, np.float32), 2, 1.0)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(PARAMETERS, max_size=4), st.lists(HANDED, max_size=4), st.booleans())
def test_any_signature(parameters: list[str], handed: list[Handed], by_name: bool):
    text = f"@kernel(target='interpret')\ndef k({', '.join(parameters)}):\n    pass\n"
    with mistakes():
        k = compile_source(text).k
        if by_name:
            k(**dict(zip(("x", "y", "a", "b"), handed, strict=False)))
        else:
            k(*handed)


@settings(max_examples=300, deadline=None)
@given(handed=st.lists(HANDED, min_size=3, max_size=5), place=st.integers(0, 3))
def test_any_argument(scale: Kernel, handed: list[Handed], place: int):
    with mistakes():
        scale(*handed)
    fitting: list[object] = [np.ones(4, np.float32), np.ones(4, np.float32), 2, 1.0]
    fitting[place] = handed[0]
    with mistakes():
        scale(*fitting)


@settings(max_examples=200, deadline=None)
@given(key=st.one_of(HANDED, st.lists(HANDED, max_size=4).map(tuple), st.tuples(st.integers(-2, 4), HANDED)))
def test_any_grid(scale: Kernel, key: Handed):
    x = np.ones(4, np.float32)
    with mistakes():
        scale[key](x, x.copy(), 2, 1.0)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(["tile", "shared", "target", "sanitize", "fast", "constants", "space", "til"]), value=HANDED
)
def test_any_option(scale: Kernel, name: str, value: Handed):
    x = np.ones(4, np.float32)
    with mistakes():
        tessera.kernel(**{name: value})(scale).variant(BM=value)
    with mistakes():
        scale.autotune(space=value)
    with mistakes():
        scale.on(value)(x, x.copy(), 2, 1.0)


@settings(max_examples=150, deadline=None)
@given(value=HANDED)
def test_anything_to_look_at_or_to_copy(scale: Kernel, value: Handed):
    x = np.ones(4, np.float32)
    for call in (
        lambda: compile_source(value) if not isinstance(value, str) else None,
        lambda: scale.compile(x, x, 2, 1.0, target=value),
        lambda: scale.inspect_ir(value),
        lambda: scale.compile(value, x, 2, 1.0),
        lambda: tessera.profile(value),
        lambda: stream.new(weight=value),
        lambda: stream.memcpy_async(dst=x.copy(), src=value),
        lambda: stream.memcpy_async(dst=x.copy(), src=x, stream=value),
    ):
        with mistakes():
            call()


def test_objects_are_not_copied_for_a_profile(scale: Kernel):
    """Their bytes are pointers."""
    with pytest.raises(ArgumentType, match="x holds object, which Tessera has no type for"):
        tessera.profile(scale)(np.array([None, 1], object), np.ones(2, np.float32), 2, 1.0)


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from([*tessera.core.settings.Settings.__slots__, "thread", "target_"]), value=HANDED)
def test_any_setting(name: str, value: Handed):
    before = current()
    with contextlib.suppress(BadSetting), overridden(**{name: value}):
        pass
    assert current() is before


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(tessera.core.settings.Settings.__slots__),
    text=st.one_of(
        st.text(max_size=6), st.sampled_from(["0", "-1", "1", "1e9", "nan", "inf", "cpu", "~nope/x", "9" * 40])
    ),
)
def test_any_variable(name: str, text: str):
    with contextlib.suppress(BadSetting):
        from_environment({f"TESSERA_{name.upper()}": text})


@pytest.mark.parametrize(
    ("parameters", "caret"), [("*args", "args"), ("x: mut f32[n], *more", "more"), ("**options", "options")]
)
def test_collected_parameters(parameters: str, caret: str):
    with pytest.raises(UnsupportedSyntax) as caught:
        compile_source(f"@kernel\ndef k({parameters}):\n    pass\n")
    line = f"def k({parameters}):"
    assert f"*{caret} in the parameters of k" in caught.value.message
    assert caught.value.hint == "write each parameter by its name"
    assert f"\n     | {' ' * line.index(caret)}{'^' * len(caret)}\n" in str(caught.value)


def test_numpys_bool_is_a_number_like_pythons():
    y = np.zeros(2, np.float32)
    compile_source("@kernel\ndef k(y: mut f32[n], a: i32):\n    y[0] = a\n").k(y, np.bool_(True))
    assert y.tolist() == [1.0, 0.0]


def test_a_lone_surrogate():
    with pytest.raises(SyntaxMistake, match="cannot stand in source text") as caught:
        compile_source("@kernel\ndef k(y: mut f32[n]):\n    # \udc80\n    y[0] = 1.0\n")
    assert (caught.value.span.line, caught.value.span.column) == (3, 7)


def test_a_grid_of_three_numbers_shows_its_place(scale: Kernel):
    x = np.ones(4, np.float32)
    with pytest.raises(BadGrid, match="the third entry of a launch is a stream, got 3") as caught:
        scale[1, 64, 3](x, x, 2, 1.0)
    assert "kernel[(x, y, z), block](...)" in caught.value.hint
    assert "        scale[1, 64, 3](x, x, 2, 1.0)\n     |         ^^^^^^^^^^^^^^^" in str(caught.value)


def test_arguments_by_the_wrong_name(scale: Kernel):
    with pytest.raises(ArgumentCount, match="unexpected keyword argument 'z'"):
        scale(1, 2, 3, 4, z=3)

"""What code reads, by its bytecode."""

# pyright: reportUndefinedVariable=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import types
from collections.abc import Callable

import pytest

from tessera.kernels.closures.code_reads import Read, code_reads


def reads(text: str) -> set[Read]:
    """Return what the function `f` of a text reads."""
    names: dict[str, Callable[..., object]] = {}
    exec(text, names)
    return set(code_reads(names["f"].__code__).variables)


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ("v * scale", Read("scale")),
        ("v * settings.rate", Read("settings", (("attribute", "rate"),))),
        ("v * a.b.c", Read("a", (("attribute", "b"), ("attribute", "c")))),
        ("v * layers['w']", Read("layers", (("item", "w"),))),
        ("v * layers[-1]", Read("layers", (("item", -1),))),
        ("v * model.layers[0].w", Read("model", (("attribute", "layers"), ("item", 0), ("attribute", "w")))),
        ("op.exp(v)", Read("op", (("attribute", "exp"),))),
        ("helper(v)", Read("helper")),
        ("sum(w * v for w in weights)", Read("weights")),
        ("(lambda u: u * scale)(v)", Read("scale")),
        ("v * layers[name]", Read("layers")),
        ("v * layers[name]", Read("name")),
        ("v * layers[1:3]", Read("layers")),
        ("v * scale if v is None else v", Read("scale")),
    ],
)
def test_reads_of_globals(body: str, read: Read):
    assert read in reads(f"def f(v):\n    return {body}\n")


def test_what_is_assigned_is_not_read():
    assert Read("count") not in reads("def f(v):\n    global count\n    count += 1\n    return v\n")
    count = 0

    def counted() -> int:
        nonlocal count
        count += 1
        return count

    assert code_reads(counted.__code__).cells == ()


def test_variables_of_the_function_around_it():
    scale, other = 2.0, 3.0

    def outer() -> Callable[[], float]:
        def inner() -> float:
            return scale * local

        local = 1.0
        return inner

    def shadows() -> Callable[[], object]:
        def inner() -> object:
            other = 1.0
            return lambda: other

        return lambda: (inner, other)

    assert code_reads(outer.__code__).cells == (Read("scale"),)
    assert code_reads(shadows.__code__).cells == (Read("other"),)


@pytest.mark.parametrize(
    "call", ["getattr(s, n)", "vars(s)[n]", "s.__dict__[n]", "asdict(s)", "operator.attrgetter(n)(s)"]
)
def test_attributes_under_names_that_are_not_spelled_out(call: str):
    names: dict[str, Callable[..., object]] = {}
    exec(f"def f(v):\n    return {call}\n", names)
    assert code_reads(names["f"].__code__).indirect


def test_attributes_and_imports():
    names: dict[str, Callable[..., object]] = {}
    exec("def f(v):\n    from settings import rate\n    v.a.b\n    return v.g(rate)\n", names)
    reads_of_f = code_reads(names["f"].__code__)
    assert reads_of_f.imported == ("settings",)
    assert reads_of_f.attributes == {"rate", "a", "b", "g"}
    assert not reads_of_f.indirect


def digest(text: str) -> bytes:
    """Return the digest of the function `f` of a text."""
    names: dict[str, types.FunctionType] = {}
    exec(text, names)
    return code_reads(names["f"].__code__).digest


def test_equal_text_has_an_equal_digest():
    text = "def f(v):\n    return [w * 2.0 for w in v]\n"
    assert digest(text) == digest("\n\n" + text)
    others = ["3.0", "2", "True", "-0.0", "'2.0'", "(2.0,)", "scale"]
    assert len({digest(text.replace("2.0", each)) for each in ("2.0", "0.0", *others)}) == len(others) + 2

"""The texts of the operations: each is there, is right about its parameters, and has an example that compiles."""

import inspect

import numpy as np
import pytest

import tessera
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.frontend.build import loops
from tessera.frontend.language.namespace import LANGUAGE, Intrinsic, Namespace
from tessera.frontend.language.reference import REFERENCE, Operation
from tessera.frontend.operations.intrinsics import HANDLERS
from tessera.lowering.artifact_cache.store import entry_of
from tessera.lowering.driver.compile import compile_program
from tessera.session.session import Session


def operations() -> list[Intrinsic]:
    """Every operation that a user can write, those inside namespaces included."""
    found: list[Intrinsic] = []
    waiting = list(LANGUAGE.values())
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, Intrinsic):
            found.append(value)
        elif isinstance(value, Namespace):
            waiting += [getattr(value, name) for name in dir(value)]
    return found


OPERATIONS = operations()
IDS = [operation.spelling for operation in OPERATIONS]


def test_every_text_is_that_of_an_operation() -> None:
    assert sorted(IDS) == sorted(REFERENCE)


@pytest.mark.parametrize("intrinsic", OPERATIONS, ids=IDS)
def test_an_operation_describes_itself(intrinsic: Intrinsic) -> None:
    operation = intrinsic.operation
    assert intrinsic.__name__ == intrinsic.spelling == operation.spelling
    assert inspect.signature(intrinsic) == operation.signature
    assert inspect.getdoc(intrinsic).startswith(operation.summary[0].upper() + operation.summary[1:] + ".\n")
    assert repr(intrinsic) == f"<{operation.call}: {operation.summary}>"
    assert set(operation.about) <= set(operation.signature.parameters)
    assert operation.spelling.split(".")[-1] in operation.body + operation.head
    assert not hasattr(intrinsic, "nothing")


def handler(intrinsic: Intrinsic) -> inspect.Signature | None:
    """The parameters of what builds an operation, without the context and the place of the call."""
    if intrinsic.spelling == "tile.range":
        found = list(inspect.signature(loops._tile_range).parameters.values())[3:]
    elif intrinsic.name in HANDLERS:
        found = list(inspect.signature(HANDLERS[intrinsic.name]).parameters.values())[2:]
    else:
        return None  # what stands in annotations
    return inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in found])


@pytest.mark.parametrize("intrinsic", OPERATIONS, ids=IDS)
def test_the_parameters_are_those_that_the_operation_takes(intrinsic: Intrinsic) -> None:
    built = handler(intrinsic)
    if built is None:
        assert intrinsic.name in ("mut", "tensor")
        return
    assert str(intrinsic.operation.signature) == str(built)
    assert intrinsic.operation.keywords == tuple(
        one.name for one in built.parameters.values() if one.kind != inspect.Parameter.VAR_POSITIONAL
    )


def fetch(self: Session, key: str, program: Program, target: Target, observe: bool) -> tuple[object, str]:
    """Compile in this process: a worker would cost more than the kernels."""
    return entry_of(compile_program(program, target, observe=False)), "compiler"


@pytest.mark.parametrize("operation", REFERENCE.values(), ids=list(REFERENCE))
def test_the_example_compiles(operation: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_fetch", fetch)
    kernel = tessera.compile_source(operation.example).example
    lanes = "tile=(128,)" in operation.head or "Tensor" in operation.head
    values = [
        np.zeros((256,) if lanes else (64, 64), np.float16 if one.arg in "AB" else np.float32)
        for one in kernel.source.function.args.args
    ]
    assert kernel.compile(*values, target="cpu").artifact.name == "example"


def test_a_text_has_everything() -> None:
    assert REFERENCE["tile.softmax"].text == (
        "Softmax along an axis.\n\n"
        "x: a tile\n"
        "axis: the axis along which the results sum to 1\n\n"
        "Example:\n\n"
        "    @kernel\n"
        "    def example(x: f32[rows, cols], y: mut f32[rows, cols]):\n"
        "        for r in tile.range(rows):\n"
        "            y[r, :] = tile.softmax(x[r, :])"
    )
    assert str(REFERENCE["tile.zeros"].signature) == "(shape, dtype=f32)"
    assert REFERENCE["tile.reshape"].keywords == ("x",)
    assert tessera.tile.__doc__.startswith("Names of the language that begin with `tile`.")
    assert "\ntile.softmax(x, axis=-1): softmax along an axis" in tessera.tile.__doc__

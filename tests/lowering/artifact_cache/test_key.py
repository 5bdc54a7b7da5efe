"""The content address: what changes it, what does not."""

import dataclasses

import pytest

from tessera.core.base import dtypes
from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.program.program import Attribute, Block, Op, Program, Value
from tessera.core.program.types import Scalar
from tessera.core.targets import Target
from tessera.lowering.artifact_cache import key
from tessera.lowering.artifact_cache.key import artifact_key, code_key, toolchain
from tessera.lowering.service.warmup import trivial_program

HERE = Target("cpu", "x", "+a")


def with_constant(value: Attribute, *, line: int = 5, file: str = "a.py", first: int = 4) -> Program:
    result = Value(Scalar(dtypes.f32), "c", Span(file, line, 3, line, 4))
    op = Op("const", (), (result,), {"value": value}, (), Span(file, line, 3, line, 9))
    program = trivial_program()
    body = Block((), (op, *program.body.ops))
    return dataclasses.replace(
        program,
        body=body,
        source=Source(file, "text"),
        span=Span(file, first, 1, first, 9),
        options={"threads_per_block": 2},
    )


def test_same_program_same_key():
    address = artifact_key(trivial_program(), HERE)
    assert address == artifact_key(trivial_program(), HERE)
    assert len(address) == 40
    assert set(address) <= set("0123456789abcdef")


def test_file_and_position_of_the_kernel_do_not_matter():
    here = artifact_key(with_constant(1.0), HERE)
    assert here == artifact_key(with_constant(1.0, file="b.py"), HERE)
    assert here == artifact_key(with_constant(1.0, line=105, first=104), HERE)


@pytest.mark.parametrize("other", [2.0, 1, True, "1.0", None, (1.0,), -1.0])
def test_attributes_matter(other: Attribute):
    assert artifact_key(with_constant(1.0), HERE) != artifact_key(with_constant(other), HERE)


def test_signed_zero_matters():
    assert artifact_key(with_constant(0.0), HERE) != artifact_key(with_constant(-0.0), HERE)


def test_lines_inside_the_kernel_matter():
    assert artifact_key(with_constant(1.0), HERE) != artifact_key(with_constant(1.0, line=6), HERE)


@pytest.mark.parametrize(
    "changes", [{"name": "other"}, {"group": (64,)}, {"shared_limit": 1}, {"options": {"lanes": 4}}, {"symbols": ()}]
)
def test_fields_matter(changes: dict[str, object]):
    program = with_constant(1.0)
    assert artifact_key(program, HERE) != artifact_key(dataclasses.replace(program, **changes), HERE)


def test_names_alone_do_not_change_the_code():
    program = with_constant(1.0)
    renamed = [dataclasses.replace(p, name=f"{p.name}2") for p in program.parameters]
    other = dataclasses.replace(program, parameters=tuple(renamed))
    assert artifact_key(program, HERE) != artifact_key(other, HERE)
    assert code_key(program, HERE) == code_key(other, HERE)
    for changed in (with_constant(2.0), dataclasses.replace(program, name="other"), with_constant(1.0, line=6)):
        assert code_key(changed, HERE) != code_key(program, HERE)
    assert code_key(program, HERE) != code_key(program, Target("cpu", "y", "+a"))


def test_target_matters():
    keys = {artifact_key(trivial_program(), t) for t in (HERE, Target("cpu", "y", "+a"), Target("cpu", "x", "+b"))}
    assert len(keys) == 3
    assert artifact_key(trivial_program(), Target("cuda", "sm_90a")) not in keys


def test_which_value_is_used_matters():
    program = trivial_program()
    a, b = (Value(Scalar(dtypes.f32), "", NOWHERE) for _ in range(2))
    define = (Op("const", (), (a,), {"value": 1.0}), Op("const", (), (b,), {"value": 1.0}))
    first = dataclasses.replace(program, body=Block((), (*define, Op("neg", (a,), (Value(Scalar(dtypes.f32)),)))))
    second = dataclasses.replace(program, body=Block((), (*define, Op("neg", (b,), (Value(Scalar(dtypes.f32)),)))))
    assert artifact_key(first, HERE) != artifact_key(second, HERE)


def test_toolchain_names_its_parts():
    assert set(toolchain("cpu")) == {"tessera", "torch-mlir", "llvmlite"}
    assert {"ptxas", "nvdisasm"} <= set(toolchain("cuda"))
    assert {"tileiras", "cuda-tile", "nvdisasm"} <= set(toolchain("cuda_tile"))


def test_another_ptxas_gives_another_key(monkeypatch: pytest.MonkeyPatch):
    """Wherever it comes from: a package, CUDA_HOME or PATH; without it the code is PTX."""
    cuda = Target("cuda", "sm_90a")
    keys = [artifact_key(trivial_program(), cuda)]
    for number in ("13.0.88", "13.1.80", ""):
        monkeypatch.setattr(key, "version", lambda name, number=number: number)
        key.toolchain.cache_clear()
        keys.append(artifact_key(trivial_program(), cuda))
        assert toolchain("cuda")["ptxas"] == (number or "absent")
        assert "ptxas" not in toolchain("cpu")
    key.toolchain.cache_clear()
    assert len(set(keys)) == 4

"""The door to MLIR: its stubs are what the installed bindings say, and its aliases are their classes."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path
from typing import get_args

import pytest

from tessera.core.mlir import AnyOp, Index, ir

ROOT = Path(__file__).parents[2]


def pinned(name: str) -> str:
    """The version of a package in `requirements.lock`."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{name}==")).split("==")[1].split()[0]


def test_the_stubs_are_those_of_the_bindings():
    pytest.importorskip("nanobind", reason="nanobind is missing, which writes the stubs")
    for name in ("torch-mlir", "nanobind"):
        installed = importlib.metadata.version(name)
        if installed != pinned(name):
            pytest.skip(f"{name} is {installed}; the stubs were written with {pinned(name)}")
    spec = importlib.util.spec_from_file_location("generate_stubs", ROOT / "typings/generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    wanted = generate.stubs()
    assert {path.name for path in wanted} == {"ir.pyi", "passmanager.pyi", "rewrite.pyi", "llvm.pyi"}
    assert [path.name for path, text in wanted.items() if path.read_text(encoding="utf-8") != text] == [], "make stubs"


def test_the_stubs_leave_nothing_untyped():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "typings").rglob("*.pyi")]
    assert len(texts) == 8
    assert [text for text in texts if re.search(r"\bAny\b(?! dialects)|\b_mlir\.", text)] == []


@pytest.mark.usefixtures("mlir")
def test_operations_and_indices():
    module = ir.Module.parse("%0 = arith.constant 1 : i64")
    view = module.body.operations[0]
    assert isinstance(view, get_args(AnyOp))
    assert isinstance(view.operation, get_args(AnyOp))
    assert isinstance(view.results[0], get_args(Index))
    assert isinstance(1, get_args(Index))


@pytest.fixture
def mlir():
    with ir.Context(), ir.Location.unknown():
        yield

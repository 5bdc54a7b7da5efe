"""Random kernels as text (`tests/fuzz`): a fixed part of what `make fuzz` runs for an hour, and the fuzzer itself."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from fuzz.__main__ import batch, fuzz
from fuzz.arrays import DTYPES, MARGIN, READ_VIEWS, VALUES, WRITTEN_VIEWS, Array
from fuzz.check import check, run, same_bits
from fuzz.device import Placed, root_of
from fuzz.kernels import Case, case_of
from fuzz.reduce import reduced
from fuzz.subjects import describe_kernel
from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.lowering.artifact_cache.store import CacheEntry, entry_of
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.memory.device_arrays import device_view
from tessera.session.session import Session

TESTS = Path(__file__).parents[1]
COMPILED = ("cuda:sm_90a", "cuda:sm_80", "cuda_tile:sm_90")


@pytest.mark.parametrize("block", range(4))
def test_the_cpu_agrees_with_the_oracle(block: int) -> None:
    kinds = Counter[str]()
    for seed in range(10 * block, 10 * block + 10):
        case = case_of(seed)
        outcome = check(case, "cpu")
        kinds[outcome.kind] += 1
        assert not outcome.bad, f"python -m fuzz --only {seed}\n{describe_kernel(case)}\n{outcome.detail}"
    assert kinds["agrees"] >= 5


@pytest.mark.gpu
@pytest.mark.parametrize("block", range(4))
def test_a_gpu_agrees_with_the_oracle(block: int) -> None:
    for seed in range(1000 + 10 * block, 1010 + 10 * block):
        case = case_of(seed, large=True)
        outcome = check(case, "cuda")
        assert not outcome.bad, (
            f"python -m fuzz --target cuda --large --only {seed}\n{describe_kernel(case)}\n{outcome.detail}"
        )


def test_a_seed_gives_one_kernel_of_every_form() -> None:
    texts = {seed: case_of(seed) for seed in range(300)}
    assert all(case_of(seed) == case for seed, case in texts.items())
    every = "\n".join(describe_kernel(case) for case in texts.values())
    for part in (
        "axis=0",
        "axis=1",
        ".T",
        "tile.dot",
        "launch.thread_id(1)",
        "while",
        "break",
        "tile.where",
        " if ",
        "'n': 0",
        *READ_VIEWS,
    ):
        assert part in every, part


@pytest.mark.parametrize("view", READ_VIEWS)
@pytest.mark.parametrize("values", VALUES)
def test_arguments(view: str, values: str) -> None:
    for dtype in DTYPES:
        for shape in ({"m": 3, "n": 5}, {"m": 0, "n": 5}, {"m": 1, "n": 1}):
            one, again = (Array("x", dtype, ("m", "n"), view, values).make(shape, 7) for _ in range(2))
            assert one.shape == tuple(shape.values())
            assert one.dtype == np.dtype(DTYPES[dtype])
            np.testing.assert_array_equal(one.tobytes(), again.tobytes())


def planted(text: str) -> Case:
    return Case(
        1, text, (Array("x", "f32", ("n",), "reversed", "special"), Array("y", "f32", ("n",), mutable=True)), {"n": 100}
    )


def compile_to_ptx(_: Session, __: str, program: Program, target: Target, ___: bool) -> tuple[CacheEntry, str]:
    """Compile in this process and without ptxas: the fake driver runs PTX."""
    with mock.patch("tessera.lowering.cuda.to_nvvm.find_tool", return_value=None):
        return entry_of(compile_program(program, target, observe=False)), "compiler"


@pytest.mark.parametrize("view", READ_VIEWS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_arrays_on_a_gpu_are_the_same_views(dtype: str, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cuda.install(monkeypatch, FakeDriver())
    monkeypatch.setattr(Session, "_fetch", compile_to_ptx)
    written = view if view in WRITTEN_VIEWS else "plain"
    arrays = Array("x", dtype, ("m", "n"), view), Array("y", dtype, ("m", "n"), written, mutable=True)
    text = f"@kernel\ndef k(x: {dtype}[m, n], y: mut {dtype}[m, n]):\n    for r in tile.range(m, step=2):\n"
    case = Case(3, text + "        y[r:r+2, :] = x[r:r+2, :] + y[r:r+2, :]\n", arrays, {"m": 5, "n": 9})
    assert check(case, "cuda").kind == "agrees"
    x, _ = case.arguments()
    seen = device_view(Placed(x), "x")
    assert (seen.shape, seen.strides, seen.dtype) == (x.shape, x.strides, x.dtype)


def test_what_is_written_outside_of_an_array_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    case = planted("@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    y[:] = x[:]\n")

    def astray(case: Case, target: str) -> tuple[list[np.ndarray] | None, str]:
        arguments, mistake = run(case, "interpret")
        if arguments is not None and target == "cpu":
            root_of(arguments[1])[-MARGIN] = 1
        return arguments, mistake

    monkeypatch.setattr("fuzz.check.run", astray)
    assert check(case, "cpu").detail == "y: written outside of its elements"


def test_a_failure_is_made_small() -> None:
    lines = [
        "a = x[t:t+64] * 2.0 + 1.0",
        "b = tile.where(a > 0.0, a - 3.0, a)",
        "y[t:t+64] = tile.floor(b) + a * x[t:t+64]",
    ]
    text = "@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    for t in tile.range(n, step=64):\n" + "".join(
        f"        {line}\n" for line in lines
    )
    small = reduced(planted(text), lambda case: "tile.floor" in case.text and run(case, "interpret")[0] is not None)
    assert small.text.count("\n") < text.count("\n") - 1
    assert "where" not in small.text
    assert small.extents["n"] == 0
    assert all(array.view == "plain" for array in small.arrays)


def test_what_differs_and_what_is_refused_is_told() -> None:
    good = planted("@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    y[:] = x[:]\n")
    assert check(good, "cpu").kind == "agrees"
    assert check(replace(good, text=good.text.replace("x[:]\n", "z[:]\n")), "cpu").kind == "refused"
    assert not same_bits(np.array([0.0, np.nan], np.float32), np.array([-0.0, np.nan], np.float32))[0]
    lanes = good.text.replace("y[:] = x[:]", "y[tile.linear_id()] = 1.0")
    assert check(replace(good, text=lanes), "cuda_tile:sm_90").kind == "limit"


def test_a_process_that_dies_is_told_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    died = 'import sys, os; print(\'{"begins": 5}\', flush=True); print(\'{"ends": 5, "kind": "agrees"}\', flush=True);'
    died += "print('{\"begins\": 6}', flush=True); os.abort()"
    started: list[list[str]] = []
    popen = subprocess.Popen

    def start(command: list[str], **options: object) -> subprocess.Popen[str]:
        started.append(command)
        last = 'print(\'{"begins": 7}\'); print(\'{"ends": 7, "kind": "agrees"}\')'
        return popen([sys.executable, "-c", died if len(started) == 1 else last], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr("fuzz.__main__.MINIMISING", 0.0)
    found = list(batch(5, 3, "cpu", large=False))
    assert [(report["ends"], report["kind"]) for report in found] == [(5, "agrees"), (6, "fails"), (7, "agrees")]
    assert "the process ended with -6" in str(found[1]["detail"])


def test_the_command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}:{TESTS}")
    monkeypatch.setattr("fuzz.__main__.BATCH", 3)
    assert fuzz(0, "cpu", large=False, first=3, processes=1) == 0
    assert "3 kernels" in capsys.readouterr().out


@pytest.mark.parametrize("target", COMPILED)
def test_gpu_targets_compile_them(target: str) -> None:
    """What the oracle runs, a GPU target compiles, or says what it has not."""
    for seed in range(60, 72):
        case = case_of(seed)
        if run(case, "interpret")[0] is None:
            continue
        _, mistake = run(case, target)
        assert mistake.startswith(("TSR-E7", "TSR-E8", "TSR-E6")) or "GPU" in mistake or not mistake, (
            f"{describe_kernel(case)}\n{mistake}"
        )

"""The native loop as LLVM IR, for processors that tell a waiting loop in different ways."""

import pytest

from tessera.runtime.launch.object_code import native_functions
from tessera.runtime.launch.worker_code import loop_code

NAMES = ("open", "serve", "run", "wait", "withdraw", "close")


def test_it_compiles():
    assert all(native_functions(loop_code(), *NAMES))


@pytest.mark.parametrize(
    ("machine", "hint"),
    [("x86_64", "@llvm.x86.sse2.pause()"), ("aarch64", "@llvm.aarch64.hint(i32 1)"), ("riscv64", None)],
)
def test_a_waiting_loop_tells_its_processor(monkeypatch: pytest.MonkeyPatch, machine: str, hint: str | None):
    monkeypatch.setattr("platform.machine", lambda: machine)
    code = loop_code()
    assert ("call void @llvm" in code) == (hint is not None)
    if hint is not None:
        assert f"call void {hint}" in code
        assert f"declare void {hint.replace(' 1', '')}" in code
    assert "{" + "pause" not in code

"""The comm target that serves the language."""

from collections.abc import Callable, Mapping
from typing import cast

from support.shell import Shell
from tessera_magics.language_comm import TARGET, Comm, Opener, serve_language, stop_serving


class Manager:
    """ipykernel's, without a kernel."""

    def __init__(self) -> None:
        self.targets: dict[str, Opener] = {}

    def register_target(self, target_name: str, f: Opener) -> None:
        self.targets[target_name] = f


class Page:
    """A comm as the kernel sees it, and what a page gets."""

    def __init__(self) -> None:
        self.got: list[Mapping[str, object]] = []
        self.ask: Callable[[Mapping[str, object]], None] = lambda message: None

    def on_msg(self, callback: Callable[[Mapping[str, object]], None]) -> None:
        self.ask = callback

    def send(self, data: Mapping[str, object]) -> None:
        self.got.append(data)


class FakeShell:
    """The part of a notebook's shell that is needed."""

    def __init__(self) -> None:
        self.user_ns: dict[str, object] = {"B": 3}
        self.kernel = self
        self.comm_manager = Manager()


def test_requests_are_answered_under_their_number() -> None:
    shell, page = FakeShell(), Page()
    serve_language(cast("Shell", shell))
    shell.comm_manager.targets[TARGET](cast("Comm", page), {})
    text = "%%tessera\n@kernel\ndef k(y: mut f32[n]):\n    y[:] = 1.0 * B\n"
    page.ask({"content": {"data": {"type": "diagnose", "text": text, "number": 7}}})
    page.ask({"content": {"data": {"type": "nothing", "number": 8}}})
    page.ask({"content": {"data": 3}})
    assert page.got[0] == {"mistakes": [], "complete": True, "number": 7}
    assert [answer["number"] for answer in page.got] == [7, 8]
    assert "error" in page.got[1]
    stop_serving(cast("Shell", shell))
    assert shell.comm_manager.targets == {}


def test_a_shell_without_a_kernel_serves_nobody(loaded: Shell) -> None:
    serve_language(loaded)
    stop_serving(loaded)
    assert not hasattr(loaded, "kernel")

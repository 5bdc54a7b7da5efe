"""Serve the language service over a Jupyter comm: a page opens the target `tessera.language` and sends requests.

Each request has a `number`, and its answer the same one.  Where the client sends them to a subshell of the kernel,
answers come while a cell runs, from another thread; else behind it.
"""

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from tessera_magics.ipython import Shell
from tessera_magics.options import complete_cell

if TYPE_CHECKING:
    from tessera_magics.language.service import LanguageService

TARGET: Final = "tessera.language"


class Comm(Protocol):
    """The part of a comm that is used here."""

    def on_msg(self, callback: Callable[[Mapping[str, object]], None]) -> None:
        """Have `callback` receive each message."""
        ...

    def send(self, data: Mapping[str, object]) -> None:
        """Send a message to the page."""
        ...


Opener = Callable[[Comm, Mapping[str, object]], None]


class CommManager(Protocol):
    """The part of ipykernel's `CommManager` that is used here."""

    targets: dict[str, Opener]

    def register_target(self, target_name: str, f: Opener) -> None:
        """Call `f` for every comm that is opened under a name."""
        ...


def serve_language(shell: Shell) -> None:
    """Register the comm target with the kernel of a shell; a shell in a terminal has none."""
    comms = _comms(shell)
    if comms is not None:

        @cache
        def service() -> "LanguageService":
            # The service is the checker with the frontend: a page that asks is soon enough to load it.
            make: type[LanguageService] = importlib.import_module("tessera_magics.language.service").LanguageService
            return make(lambda: shell.user_ns, complete_cell)

        comms.register_target(TARGET, lambda comm, _opening: _open(comm, service()))


def stop_serving(shell: Shell) -> None:
    """Take that back; comms that are open go on answering."""
    comms = _comms(shell)
    if comms is not None:
        comms.targets.pop(TARGET, None)


def _comms(shell: Shell) -> CommManager | None:
    return getattr(getattr(shell, "kernel", None), "comm_manager", None)


def _open(comm: Comm, service: "LanguageService") -> None:
    def receive(message: Mapping[str, object]) -> None:
        content = message["content"]
        request: object = content["data"] if isinstance(content, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]
        if isinstance(request, Mapping):
            comm.send({**service.answer(request), "number": request.get("number")})  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]

    comm.on_msg(receive)

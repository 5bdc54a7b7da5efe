"""Modules that say `ON_HARDWARE = True` run twice: on the machine that runs PTX in this process, and on a GPU."""

import pytest

from lowering.cuda import compare
from support import hardware


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if getattr(metafunc.module, "ON_HARDWARE", False):  # pyright: ignore[reportUnknownMemberType] - of pytest itself
        where = ["simulated", pytest.param("hardware", marks=pytest.mark.gpu)]
        metafunc.parametrize("machine", where, indirect=True)


@pytest.fixture(autouse=True)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `agree` and `simulate` run a kernel."""
    if getattr(request, "param", "simulated") == "hardware":
        monkeypatch.setattr(compare, "simulate", hardware.simulate)
        module = request.module  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - of pytest itself
        monkeypatch.setattr(module, "simulate", hardware.simulate, raising=False)

"""Calls of the CUDA driver: what failures become, and who is suspected of a fault."""

import os
import sys
from collections import deque
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest

from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import BadCapture, ContextLost, CudaFailure
from tessera.runtime.driver.descriptors import Launched
from tessera.runtime.driver.driver import Driver

SOURCE = Source("cell.py", "@kernel\ndef first(x): ...\n@kernel\ndef second(x): ...\n")
FIRST = Launched("first", Span("cell.py", 2, 5, 2, 10), SOURCE)
SECOND = Launched("second", Span("cell.py", 4, 5, 4, 11), SOURCE)


class Statuses:
    """cuda-bindings' enumeration of statuses."""

    CUDA_SUCCESS = 0

    def __call__(self, status: int) -> int:
        return status


def gives(status: int) -> Callable[..., tuple[int]]:
    """A function of the driver, whatever it takes."""
    return lambda *_: (status,)


def failing(context: int = 1, **calls: int) -> Driver:
    """A driver whose functions give these statuses; `context` is current."""
    driver = Driver.__new__(Driver)
    driver.lost, driver.launched, driver.used, driver._process = None, deque(), set(), os.getpid()
    driver._api = ModuleType("cuda.bindings.driver")
    vars(driver._api).update(
        CUresult=Statuses(), CUstream=int, CUevent=int,
        cuGetErrorString=lambda status: (0, b"an illegal memory access was encountered"),
        cuCtxGetCurrent=lambda: (0, context),
        **{name: gives(status) for name, status in calls.items()},
    )  # fmt: skip
    return driver


def test_without_cuda_bindings_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(CudaFailure, match="cuda-bindings is not installed") as caught:
        Driver()
    assert "pip install 'tessera[cuda13]'" in caught.value.hint


def test_what_the_driver_refuses_is_said_in_its_words():
    with pytest.raises(CudaFailure, match="cuStreamDestroy: 1: an illegal memory access"):
        failing(cuStreamDestroy=1).close_stream(5)


def test_a_fault_of_the_kernel_is_reported_where_it_is_waited_for():
    driver = failing(cuStreamQuery=700)
    driver.launched.append((FIRST, 1, 0))
    with pytest.raises(ContextLost, match="kernel first: an illegal memory access was encountered") as caught:
        driver.wait(0)
    assert "the process's CUDA context is lost" in caught.value.message
    assert caught.value.span == FIRST.span
    assert "line 2, column 5" in str(caught.value)


def test_the_kernels_it_may_have_been():
    driver = failing(cuStreamQuery=700)
    driver.launched.extend([(FIRST, 1, 0), (SECOND, 1, 0), (FIRST, 1, 0), (SECOND, 1, 7)])
    with pytest.raises(ContextLost, match="one of the kernels first, second") as caught:
        driver.wait(0)
    assert caught.value.span == SECOND.span
    assert [note.message for note in caught.value.notes] == ["kernel first, line 2 of cell.py"]


def test_kernels_on_other_gpus_are_not_suspected():
    driver = failing(cuStreamQuery=700)
    driver.launched.extend([(FIRST, 1, 0), (SECOND, 2, 0)])
    with pytest.raises(ContextLost, match="kernel first: "):
        driver.wait(0)


def test_a_fault_is_reported_while_other_threads_launch():
    driver = failing(cuStreamQuery=700)

    class Noisy(Launched):
        """Another thread launches while this one is looked at."""

        def __hash__(self) -> int:
            driver.launched.append((SECOND, 1, 0))
            return super().__hash__()

    driver.launched.append((Noisy(FIRST.name, FIRST.span, FIRST.source), 1, 0))
    with pytest.raises(ContextLost, match="kernel first: "):
        driver.wait(0)


def test_kernels_whose_end_was_seen_are_not_suspected():
    driver = failing(cuStreamQuery=0)
    driver.launched.extend([(FIRST, 1, 0), (SECOND, 1, 7)])
    driver.wait(0)
    assert list(driver.launched) == [(SECOND, 1, 7)]


def test_the_end_of_one_gpus_kernels_says_nothing_of_anothers():
    driver = failing(context=2, cuStreamQuery=0)
    driver.launched.extend([(FIRST, 1, 0), (SECOND, 2, 0)])
    driver.wait(0)
    assert list(driver.launched) == [(FIRST, 1, 0)]


def test_what_is_launched_during_a_wait_is_still_suspected():
    driver = failing()
    again = (FIRST, 1, 0)

    def launched_meanwhile(stream: int) -> tuple[int]:
        driver.launched.append(again)
        return (0,)

    vars(driver._api).update(cuStreamQuery=launched_meanwhile)
    driver.launched.append(again)
    driver.wait(0)
    assert list(driver.launched) == [again]


def test_after_a_fault_everything_says_so():
    driver = failing(cuStreamQuery=700)
    driver.launched.append((FIRST, 1, 0))
    with pytest.raises(ContextLost):
        driver.wait(0)
    assert driver.gone
    with pytest.raises(ContextLost, match="an earlier fault cost this process its CUDA context"):
        driver.enter()
    with pytest.raises(ContextLost, match=r"earlier fault.*kernel first"):
        driver.failed(1, "cuLaunchKernelEx")


def test_a_forked_process_is_told_that_it_has_no_cuda():
    driver = failing(cuStreamQuery=3)
    assert not driver.gone
    with pytest.raises(CudaFailure, match="cuStreamQuery: 3"):
        driver.wait(0)
    driver._process = os.getpid() + 1
    assert driver.gone  # what is in the parent's context is not the child's to give back
    with pytest.raises(CudaFailure, match="this process was forked from one that uses CUDA") as caught:
        driver.wait(0)
    assert "spawn" in caught.value.hint


def giving_back(driver: Driver) -> list[object]:
    """Everything that is called, in order, when something is given back."""
    seen: list[object] = []

    def exchange(mode: int) -> tuple[int, int]:
        seen.append(mode)
        return 0, 1

    vars(driver._api).update(
        CUstreamCaptureMode=int, cuThreadExchangeStreamCaptureMode=exchange, cuCtxGetDevice=lambda: (0, 0)
    )
    return seen


def test_things_are_given_back_whatever_is_captured():
    """In the relaxed mode (2), and then in the one that was there (1)."""
    driver = failing()
    seen = giving_back(driver)
    driver.give_back(0, lambda *what: seen.append(what), 1, 2)
    driver.give_back(None, lambda: seen.append("anywhere"))
    assert seen == [2, (1, 2), 1, 2, "anywhere", 1]


def test_the_mode_is_as_before_where_giving_back_fails():
    driver = failing(cuStreamDestroy=1)
    seen = giving_back(driver)
    with pytest.raises(CudaFailure):
        driver.give_back(0, driver.close_stream, 5)
    assert seen == [2, 1]


def test_what_is_gone_is_not_given_back():
    driver = failing()
    seen = giving_back(driver)
    driver._process += 1
    driver.give_back(0, lambda: seen.append("child"))
    driver._process -= 1
    driver.lost = CudaFailure("a fault")
    driver.give_back(0, lambda: seen.append("lost"))
    assert seen == []


@pytest.mark.parametrize("status", [900, 906, 908])
def test_what_a_capture_cannot_hold_is_said_with_the_remedy(status: int):
    with pytest.raises(BadCapture, match="cuLaunchKernelEx cannot be part of the graph that is captured") as caught:
        failing().failed(status, "cuLaunchKernelEx")
    assert caught.value.hint == "call the kernel once before the capture, on arrays like these"


def test_code_is_loaded_in_a_mode_that_no_capture_minds():
    modes = [0]

    def exchange(mode: int) -> tuple[int, int]:
        before, modes[0] = modes[0], mode
        return 0, before

    driver = failing()
    vars(driver._api).update(
        CUstreamCaptureMode=int,
        cuThreadExchangeStreamCaptureMode=exchange,
        cuModuleLoadData=lambda code: (0 if modes == [2] else 900, 5),
        cuModuleGetFunction=lambda module, name: (0, module + 1),
    )
    assert driver.load(b"code", "entry") == 6
    assert modes == [0]


def test_whether_a_stream_is_captured():
    driver = failing()
    vars(driver._api).update(
        CUstreamCaptureStatus=SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0),
        cuStreamIsCapturing=lambda stream: (0, int(stream == 5)),
    )
    assert [driver.capturing(stream) for stream in (0, 5, 6)] == [False, True, False]

"""`tile.range(..., parallel=)`: what it refuses, and what the sanitizer finds."""

import numpy as np
import pytest

from frontend.kernels import array, build
from tessera.core.base.dtypes import f32, i64
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import DependentTrips, MeetingTrips, WrongArguments
from tessera.core.program.program import find
from tessera.runtime.launch.interpreter import Interpreter

HEAD = "@kernel\ndef k(x: f32[n], i: i64[n], y: mut f32[n]):\n"


def program(body: str):
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    return build(text, array(f32, 8), array(i64, 8), array(f32, 8))


@pytest.mark.parametrize(
    ("body", "mistake", "says"),
    [
        (
            "t = 0.0\nfor r in tile.range(n, parallel=True):\n    t += x[r]\ny[0] = t",
            DependentTrips,
            "needs t of the one",
        ),
        ("for r in tile.range(n, parallel=True):\n    if x[r] < 0:\n        break", DependentTrips, "a break decides"),
        ("for r in tile.range(n, parallel=2):\n    y[r] = x[r]", WrongArguments, "parallel is"),
    ],
)
def test_refused(body: str, mistake: type[TesseraError], says: str):
    with pytest.raises(mistake, match=says) as caught:
        program(body)
    assert caught.value.hint
    assert caught.value.span.line in (3, 4)


def test_a_name_that_each_trip_sets_anew_is_not_carried():
    found = program("t = x[0]\nfor r in tile.range(n, parallel=True):\n    t = x[r] * 2.0\n    y[r] = t")
    loop = find(found.body, lambda op: op.opcode == "for")
    assert loop is not None
    assert loop.results == ()
    assert loop.attributes["parallel"] is True


SCATTER = "for r in tile.range(n, parallel=True):\n    y[i[r]] = x[r]"


def sanitized(body: str, places: list[int]) -> np.ndarray:
    y = np.zeros(8, np.float32)
    Interpreter(program(body), sanitize=True)(np.arange(8, dtype=np.float32), np.asarray(places), y)
    return y


def test_trips_that_do_not_meet():
    assert sanitized(SCATTER, [7, 6, 5, 4, 3, 2, 1, 0]).tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_two_trips_that_write_one_element():
    with pytest.raises(MeetingTrips) as caught:
        sanitized(SCATTER, [0, 1, 2, 3, 4, 2, 6, 7])
    assert "the trip r = 5 writes y[2] here, which the trip r = 2 writes" in caught.value.message
    assert [note.message for note in caught.value.notes] == ["the trip r = 2 writes y[2] here"]
    assert "leave it out" in caught.value.hint


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("for r in tile.range(n, parallel=True):\n    y[r] = y[i[r]]", "r = 3 reads y[1] here, which the trip r = 1 writes"),
        ("for r in tile.range(n, parallel=True):\n    a = y[i[r]]\n    a += y[i[r]]\n    y[7 - r] = a",
         "r = 5 writes y[2] here, which the trip r = 2 reads"),
        ("for q in tile.range(2):\n    for r in tile.range(4, parallel=True):\n        y[4 * q + i[r]] = x[r]",
         "r = 3 writes y[1] here, which the trip r = 1 writes"),
    ],
)  # fmt: skip
def test_reads_and_writes(body: str, says: str):
    with pytest.raises(MeetingTrips) as caught:
        sanitized(body, [0, 1, 2, 1, 0, 0, 0, 0])
    assert says in caught.value.message


def test_what_other_loops_did_before_is_in_order():
    body = "for r in tile.range(n, parallel=True):\n    y[r] = x[r]\n" * 2
    assert sanitized(body + "y[0] = y[1]", [0] * 8)[0] == 1

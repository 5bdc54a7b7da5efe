"""Simulated pipelines against the formulas of their bubbles, and what every schedule must do."""

from itertools import pairwise

import pytest

from tessera.core.planning.parallel_plan import FORWARD, GPIPE, INTERLEAVED, ONE_F_ONE_B, PipelineShape
from tessera.performance.parallel.pipeline import Piece, StageTimes, launch_order, orders, simulate

SHAPES = [
    PipelineShape(schedule, stages, batches, 1, chunks)
    for schedule, chunk_counts in ((GPIPE, (1,)), (ONE_F_ONE_B, (1,)), (INTERLEAVED, (2, 3, 4)), (FORWARD, (1,)))
    for chunks in chunk_counts
    for stages in (1, 2, 3, 4, 8)
    for batches in (stages, 4 * stages, 12 * stages)
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_stage_takes_every_piece_once(shape: PipelineShape):
    ways = "F" if shape.schedule == FORWARD else "FB"
    wanted = {
        Piece(way, batch, chunk)
        for way in ways
        for batch in range(shape.micro_batches)
        for chunk in range(shape.chunks)
    }
    for order in orders(shape):
        assert len(order) == len(wanted)
        assert set(order) == wanted


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_host_launches_pieces_after_what_they_need(shape: PipelineShape):
    launched = list(launch_order(shape))
    for stage, order in enumerate(orders(shape)):
        assert tuple(piece for number, piece in launched if number == stage) == order
    places = {
        (piece.way, piece.micro_batch, piece.chunk * shape.stages + stage): at
        for at, (stage, piece) in enumerate(launched)
    }
    last = shape.stages * shape.chunks - 1
    for (way, batch, part), at in places.items():
        if way == "F" and part:
            assert places["F", batch, part - 1] < at
        elif way == "B":
            assert places["F", batch, part] < at
            assert part == last or places["B", batch, part + 1] < at


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bubbles_of_equal_stages_are_those_of_the_formulas(shape: PipelineShape):
    run = simulate(shape, [StageTimes(1.0, 2.0)] * shape.stages)
    assert run.bubble == pytest.approx(shape.bubble, abs=1e-9)
    each = 1.0 if shape.schedule == FORWARD else 3.0
    assert run.seconds == pytest.approx(each * (shape.micro_batches + (shape.stages - 1) / shape.chunks))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_device_does_two_things_at_once_and_pieces_wait_for_what_they_need(shape: PipelineShape):
    run = simulate(shape, [StageTimes(1.0 + n % 3, 2.0, 0.25, 0.5) for n in range(shape.stages)], 0.125, 8.0)
    ended: dict[tuple[int, str], float] = {}
    for number, row in enumerate(run.rows):
        work = [span for span in row.spans if not span.name.startswith("send ")]
        for before, after in pairwise(work):
            assert before.end <= after.start + 1e-12
        for span in work:
            ended[number, span.name.partition(":")[0]] = span.end
    if shape.chunks == 1:
        for number in range(1, shape.stages):
            starts = {span.name: span.start for span in run.rows[number].spans}
            for batch in range(shape.micro_batches):
                assert starts[f"F{batch}"] >= ended[number - 1, f"F{batch}"] + 0.125 - 1e-12


def test_what_the_first_stage_keeps():
    assert PipelineShape(GPIPE, 4, 16, 1).kept == 16
    assert PipelineShape(ONE_F_ONE_B, 4, 16, 1).kept == 4
    assert PipelineShape(INTERLEAVED, 4, 16, 1, 2).kept == 5.5
    for shape in (PipelineShape(ONE_F_ONE_B, 4, 16, 1), PipelineShape(INTERLEAVED, 4, 16, 1, 2)):
        kept = most = 0
        for piece in orders(shape)[0]:
            kept += 1 if piece.way == "F" else -1
            most = max(most, kept)
        assert most / shape.chunks == shape.kept


def test_transfers_delay_a_pipeline_and_are_counted():
    shape = PipelineShape(ONE_F_ONE_B, 2, 4, 1)
    still, slow = (simulate(shape, [StageTimes(1.0, 2.0)] * 2, each, 10.0) for each in (0.0, 0.5))
    assert slow.seconds > still.seconds
    assert slow.rows[0].sent == slow.rows[1].sent == 40.0
    assert slow.rows[0].communication == pytest.approx(4 * 0.5)

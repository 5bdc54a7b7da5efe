"""Simulate pipelines on a virtual clock: GPipe, 1F1B and interleaved 1F1B, with transfers between stages.

Each stage has its work in a fixed order; a piece begins when the stage is free and what it needs has arrived.

   stage 0  F0 F1 F2 F3       B0    B1 ...
   stage 1     F0 F1 B0 F2 B1 ...
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.planning.device_timeline import COMMUNICATION, COMPUTE, DeviceRow, DeviceSpan
from tessera.core.planning.parallel_plan import FORWARD, GPIPE, INTERLEAVED, PipelineShape

_FORWARDS: Final = "F"
_BACKWARDS: Final = "B"


@dataclass(frozen=True, slots=True)
class Piece:
    """Work of one stage: a micro-batch through a chunk of its layers.  way: "F" forwards, "B" backwards."""

    way: str
    micro_batch: int
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of a stage for one micro-batch through all its layers.

    forwards, backwards: of kernels; joining_forwards, joining_backwards: of collectives inside the stage
    """

    forwards: float
    backwards: float
    joining_forwards: float = 0.0
    joining_backwards: float = 0.0

    def of(self, way: str) -> tuple[float, float]:
        """Return the seconds of kernels, and of collectives, one way."""
        if way == _FORWARDS:
            return self.forwards, self.joining_forwards
        return self.backwards, self.joining_backwards


def orders(shape: PipelineShape) -> tuple[tuple[Piece, ...], ...]:
    """Return the order of the pieces of each stage."""
    return tuple(_order(shape, stage) for stage in range(shape.stages))


def _order(shape: PipelineShape, stage: int) -> tuple[Piece, ...]:
    total = shape.micro_batches * shape.chunks
    forwards = [_piece(shape, number, _FORWARDS) for number in range(total)]
    if shape.schedule == FORWARD:
        return tuple(forwards)
    backwards = [_piece(shape, number, _BACKWARDS) for number in range(total)]
    first = min(total, _warm_up(shape, stage))
    found = forwards[:first]
    for number in range(total - first):
        found += [forwards[first + number], backwards[number]]
    return (*found, *backwards[total - first :])


def _warm_up(shape: PipelineShape, stage: int) -> int:
    """Return how many pieces go forwards before the first one goes backwards."""
    if shape.schedule == GPIPE:
        return shape.micro_batches * shape.chunks
    if shape.schedule == INTERLEAVED:
        return 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages
    return shape.stages - stage - 1


def _piece(shape: PipelineShape, number: int, way: str) -> Piece:
    """Return a stage's piece by its number: of several chunks, each takes as many micro-batches as there are stages."""
    chunk, batch = 0, number
    if shape.chunks > 1:
        rounds, inside = divmod(number, shape.stages * shape.chunks)
        chunk = inside // shape.stages
        batch = rounds * shape.stages + inside % shape.stages
        if way == _BACKWARDS:
            chunk = shape.chunks - 1 - chunk
    return Piece(way, batch, chunk)


def launch_order(shape: PipelineShape) -> Iterator[tuple[int, Piece]]:
    """Give the pieces of all stages, each with its stage: after what it needs, and stages in turns.

    A host that launches work on all devices goes through them in this order.
    """
    waiting = [deque(order) for order in orders(shape)]
    done: set[tuple[str, int, int]] = set()
    while any(waiting):
        before = len(done)
        for stage, pieces in enumerate(waiting):
            if pieces and ((needed := _needed(shape, stage, pieces[0])) is None or needed in done):
                piece = pieces.popleft()
                done.add((piece.way, piece.micro_batch, piece.chunk * shape.stages + stage))
                yield stage, piece
        assert len(done) > before, "each stage waits for another"


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A pipeline as it was simulated.  rows: one a stage; bubble: the share of `seconds` that stages wait."""

    rows: tuple[DeviceRow, ...]
    seconds: float
    bubble: float


@dataclass(slots=True)
class _Stage:
    """A stage while it is simulated.  free: when it can go on; place: of the next piece in its order."""

    order: tuple[Piece, ...]
    free: float = 0.0
    place: int = 0


def simulate(
    shape: PipelineShape, times: Sequence[StageTimes], sending: float = 0.0, sent: float = 0.0,
    names: Mapping[int, tuple[str, tuple[int, ...]]] | None = None, basis: str = "",
) -> SimulatedRun:  # fmt: skip
    """Run a pipeline on a virtual clock.

    times: of each stage; sending, sent: seconds and bytes of one transfer between stages, which delays what waits
        for it, and the sender's next piece not at all
    names: of each stage, with its devices; basis: what the seconds of transfers rest on
    """
    stages = [_Stage(order) for order in orders(shape)]
    spans: list[list[DeviceSpan]] = [[] for _ in stages]
    ended: dict[tuple[str, int, int], float] = {}
    left = sum(len(stage.order) for stage in stages)
    while left:
        before = left
        for number, stage in enumerate(stages):
            while stage.place < len(stage.order):
                piece = stage.order[stage.place]
                needed = _needed(shape, number, piece)
                if needed is not None and needed not in ended:
                    break
                arrives = 0.0 if needed is None else ended[needed] + _delay(shape, needed, piece, number, sending)
                begin = max(stage.free, arrives)
                stage.free = _done(spans[number], piece, begin, times[number], shape.chunks)
                ended[piece.way, piece.micro_batch, piece.chunk * shape.stages + number] = stage.free
                if shape.stages > 1 and sending and _sends(shape, number, piece):
                    _note_sending(spans[number], piece, stage.free, sending, sent, basis)
                stage.place += 1
                left -= 1
        assert left < before, "each stage waits for another"
    return _run(spans, names or {number: (f"stage {number}", (number,)) for number in range(shape.stages)})


def _needed(shape: PipelineShape, stage: int, piece: Piece) -> tuple[str, int, int] | None:
    """Return what must have ended: the part of the model before, or behind it on the way back."""
    part, last = piece.chunk * shape.stages + stage, shape.stages * shape.chunks - 1
    if piece.way == _FORWARDS:
        return (_FORWARDS, piece.micro_batch, part - 1) if part else None
    return (_BACKWARDS, piece.micro_batch, part + 1) if part < last else (_FORWARDS, piece.micro_batch, last)


def _delay(shape: PipelineShape, needed: tuple[str, int, int], piece: Piece, stage: int, sending: float) -> float:
    same = needed[2] % shape.stages == stage and needed[0] != piece.way
    return 0.0 if same or shape.stages == 1 else sending


def _sends(shape: PipelineShape, stage: int, piece: Piece) -> bool:
    part = piece.chunk * shape.stages + stage
    return part < shape.stages * shape.chunks - 1 if piece.way == _FORWARDS else part > 0


def _done(spans: list[DeviceSpan], piece: Piece, begin: float, times: StageTimes, chunks: int) -> float:
    """Note kernels, and the collectives behind them; return when both are over."""
    compute, joining = (each / chunks for each in times.of(piece.way))
    name = f"{piece.way}{piece.micro_batch}" + (f".{piece.chunk}" if chunks > 1 else "")
    end = begin + compute
    spans.append(DeviceSpan(COMPUTE, name, begin, end))
    if joining:
        spans.append(DeviceSpan(COMMUNICATION, f"{name}: collectives inside the stage", end, end + joining))
    return end + joining


def _note_sending(spans: list[DeviceSpan], piece: Piece, begin: float, seconds: float, sent: float, basis: str) -> None:
    way = "on" if piece.way == _FORWARDS else "back"
    spans.append(DeviceSpan(COMMUNICATION, f"send {piece.micro_batch} {way}", begin, begin + seconds, sent, basis))


def _run(spans: Sequence[Sequence[DeviceSpan]], names: Mapping[int, tuple[str, tuple[int, ...]]]) -> SimulatedRun:
    rows = tuple(DeviceRow(*names[number], tuple(each)) for number, each in enumerate(spans))
    # A transfer that a stage sends while it waits is no work of the stage.
    busy = [sum(span.seconds for span in row.spans if not span.name.startswith("send ")) for row in rows]
    seconds = max((span.end for row in rows for span in row.spans), default=0.0)
    bubble = 1 - sum(busy) / (seconds * len(busy)) if seconds else 0.0
    return SimulatedRun(rows, seconds, bubble)

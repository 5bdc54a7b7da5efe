"""Fourier transforms: products for short lengths, which are fused with their neighbours, a library for longer ones.

A rule of shape: where every length is at most 64 a transform is a contraction with the matrix of its roots of unity
(`fourier_products.py`).  Others are a `call`: of pocketfft through NumPy on the host, of cuFFT through CuPy on a GPU.
Both store a complex number as two real ones side by side, [..., 2], and so do graphs: nothing is packed for a call, and
the parts are views.
"""

from collections.abc import Sequence

from tessera.core.arrays.array_methods import Array
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.graph import Routine, Tensor
from tessera.graphs import tracer
from tessera.graphs.custom import traced_adjoint
from tessera.graphs.function import operator
from tessera.graphs.shapes import axis_of
from tessera.graphs.tracer import Tracer
from tessera.ops.definitions.arrays import arange, pad
from tessera.ops.definitions.complex_arrays import Complex, Operand, parts_of
from tessera.ops.definitions.floats import widened
from tessera.ops.definitions.fourier_products import MOST_FACTOR, along_last
from tessera.ops.libraries import fourier


@operator("fft")
def fft(x: Operand, axis: int = -1, *, exact: bool = False) -> Complex:
    """Return the discrete Fourier transform along an axis: sum over m of x[m] exp(-2 pi i k m / n), not scaled.

    x: a real array, a pair (real, imag) of one shape, or a Complex; floats of 16 bits are computed in f32, integers
      become f32
    exact: by products whatever the length, with the same bits on every target; else those longer than 64 are computed
      by a library, and bits are not the same across targets
    Raises OperandMismatch for an axis that is not there or has no elements, and for parts that differ; LibraryMissing
    on a GPU without CuPy.
    """
    return _transformed(x, (axis,), inverse=False, exact=exact)


@operator("ifft")
def ifft(x: Operand, axis: int = -1, *, exact: bool = False) -> Complex:
    """Return the inverse of `fft`: sum over k of x[k] exp(2 pi i k m / n) / n.  Raises as `fft` does."""
    return _transformed(x, (axis,), inverse=True, exact=exact)


@operator("fft2d")
def fft2d(x: Operand, *, exact: bool = False) -> Complex:
    """Return the transform along the last two axes; see `fft`.  Raises OperandMismatch below two axes."""
    return _transformed(x, (-2, -1), inverse=False, exact=exact)


@operator("ifft2d")
def ifft2d(x: Operand, *, exact: bool = False) -> Complex:
    """Return the inverse of `fft2d`, divided by the number of elements of the last two axes."""
    return _transformed(x, (-2, -1), inverse=True, exact=exact)


@operator("rfft")
def rfft(x: Array, axis: int = -1, *, exact: bool = False) -> Complex:
    """Return the first n // 2 + 1 elements of the transform of a real array: the others are their conjugates."""
    if isinstance(x, tuple | list | Complex):
        raise OperandMismatch("rfft takes a real array", hint="use op.fft for a pair (real, imag)")
    given, dtype = widened(x)
    place = axis_of(given.ndim, axis)
    _require_elements(given.shape, [place])
    rows = _last(given, [place])
    kept = rows.shape[-1] // 2 + 1
    if exact or rows.shape[-1] <= MOST_FACTOR:
        made = along_last(rows, False, inverse=False)[..., :kept, :]
    else:
        made = _called(_RFFT, rows)
    return Complex(_back(made, [place]).astype(dtype))


def _transformed(x: Operand, axes: Sequence[int], *, inverse: bool, exact: bool) -> Complex:
    state, paired, dtype = parts_of(x)
    shape = state.shape[:-1] if paired else state.shape
    places = [axis_of(len(shape), axis) for axis in axes]
    _require_elements(shape, places)
    scale = 1.0
    for place in places:
        scale /= shape[place] if inverse else 1
    state = state * scale if scale != 1.0 else state  # before the transform: what made it does that, too
    if exact or max(shape[place] for place in places) <= MOST_FACTOR:
        for place in places:
            state = _back(along_last(_last(state, [place], paired=paired), paired, inverse), [place])
            paired = True
    else:
        if not paired:
            state = tracer.select(arange(2) == 0, state[..., None], 0.0)
        moved = _last(state, places, paired=True)
        state = _back(_called(_FFT[len(places), inverse], moved, rank=len(places), inverse=inverse), places)
    return Complex(state.astype(dtype))


def _require_elements(shape: Sequence[int], places: Sequence[int]) -> None:
    for place in places:
        if not shape[place]:
            raise OperandMismatch(f"axis {place} of {tuple(shape)} has no elements to transform")


def _last(x: Tracer, places: Sequence[int], *, paired: bool = False) -> Tracer:
    """Move axes behind the others, before the parts."""
    rank = x.ndim - int(paired)
    return x.transpose(*_order(rank, places), *range(rank, x.ndim))


def _back(x: Tracer, places: Sequence[int]) -> Tracer:
    """Move axes that lie before the parts to their places."""
    rank = x.ndim - 1
    order = _order(rank, places)
    return x.transpose(*(order.index(axis) for axis in range(rank)), rank)


def _order(rank: int, places: Sequence[int]) -> list[int]:
    return [*(axis for axis in range(rank) if axis not in places), *places]


def _called(routine: Routine, x: Tracer, **options: int | bool) -> Tracer:
    (made,) = x.trace.builder.call(routine, [x.value], **options)
    return x.of(made)


def _same(types: Sequence[Tensor], _: object) -> list[Tensor]:
    return [types[0]]


def _half(types: Sequence[Tensor], _: object) -> list[Tensor]:
    (x,) = types
    return [Tensor(x.dtype, (*x.shape[:-1], x.shape[-1] // 2 + 1, 2))]


def _fft(rank: int, inverse: bool) -> Routine:
    def adjoint(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
        """Return the transform with the other sign: its matrix is symmetric, and that is its conjugate."""
        del inputs, outputs
        return _called(_FFT[rank, not inverse], cotangents[0], rank=rank, inverse=not inverse)

    return Routine("fft", "pocketfft, cuFFT", _same, fourier.transform, fills=True, adjoint=traced_adjoint(adjoint))


def _rfft_adjoint(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Return the real part of the transform with the other sign, of the half that there is."""
    del outputs
    (x,), (given,) = inputs, cotangents
    missing = x.shape[-1] - given.shape[-2]
    whole = pad(given, [*[(0, 0)] * (given.ndim - 2), (0, missing), (0, 0)])
    return _called(_FFT[1, True], whole, rank=1, inverse=True)[..., 0]


_FFT = {(rank, inverse): _fft(rank, inverse) for rank in (1, 2) for inverse in (False, True)}
_RFFT = Routine(
    "rfft", "pocketfft, cuFFT", _half, fourier.transform_real, fills=True, adjoint=traced_adjoint(_rfft_adjoint)
)

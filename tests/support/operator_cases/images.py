"""Rows of operators on images."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

from typing import Final

import numpy as np

from support.image_references import adaptively_pooled, correlated, pooled, resampled, transposed
from support.operator_cases.case import ELSE, Case, Numbers, f
from tessera import op


def _convolved(rank: int) -> Case:
    name = f"conv{rank}d"
    made = getattr(op, name)
    size = (9, 7, 5)[:rank]
    stride, dilation, padding = (2, 1, 1)[:rank], (1, 2, 1)[:rank], ((1, 0), (2, 1), (0, 1))[:rank]

    def want(x: Numbers, w: Numbers, b: Numbers) -> Numbers:
        y = correlated(x, w, stride=stride, padding=padding, dilation=dilation, groups=2)
        return y + b.reshape(-1, *(1,) * rank)

    shape = (4, 2, *(3, 3, 2)[:rank])
    return Case(
        lambda x, w, b: made(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=2), want,
        (f(2, 4, *size), f(*shape), f(4)),
        ((lambda: made(np.ones((1, 3, *(2,) * rank)), np.ones((1, 3, *(3,) * rank))), "do not fit images"),
         (lambda: made(ELSE, np.ones((1, 3, *(3,) * rank))), f"images have {rank + 2} axes"),
         (lambda: made(np.ones((1, 3, *size)), np.ones((1, 3, *(3,) * rank)), padding="full"), "no padding 'full'"),
         (lambda: made(np.ones((1, 3, *size)), np.ones((1, 3, *(3,) * rank)), np.ones(2)), "a bias of (2,)")),
        (f(0, 4, *size), f(*shape), f(4)), slack=8,
    )  # fmt: skip


def _patches(x: Numbers) -> Numbers:
    """Return what a convolution with a filter for each pixel of a patch and channel gives."""
    channels, taps = x.shape[-3], 6
    filters = np.eye(channels * taps).reshape(channels * taps, channels, 3, 2)
    y = correlated(x, filters, stride=(2, 1), padding=((1, 1), (2, 2)), dilation=(1, 3), groups=1)
    return y.reshape(*y.shape[:-2], y.shape[-2] * y.shape[-1])


def _transposed(rank: int) -> Case:
    made = getattr(op, f"conv_transpose{rank}d")
    how = {
        "stride": (2, 3, 1)[:rank], "padding": (1, 0, 1)[:rank], "output_padding": (1, 2, 0)[:rank],
        "dilation": (1, 1, 2)[:rank],
    }  # fmt: skip

    def want(x: Numbers, w: Numbers, b: Numbers) -> Numbers:
        return transposed(x, w, groups=2, **how) + b.reshape(-1, *(1,) * rank)

    size, taps = (3, 4, 3)[:rank], (4, 2, 3)[:rank]
    return Case(
        lambda x, w, b: made(x, w, b, groups=2, **how), want, (f(2, 4, *size), f(4, 3, *taps), f(6)),
        ((lambda: made(np.ones((1, 3, *size)), np.ones((4, 3, *taps))), "whose first axis is the"),
         (lambda: made(ELSE, np.ones((1, 3, *taps))), f"images have {rank + 2} axes"),
         (lambda: made(np.ones((1, 4, *size)), np.ones((4, 3, *taps)), output_padding=1), "output_padding=1")),
        (f(0, 4, *size), f(4, 3, *taps), f(6)), slack=8,
    )  # fmt: skip


def _pool(rank: int, kind: str) -> Case:
    made = getattr(op, f"{kind}_pool{rank}d")
    size, stride, padding = (3, 2, 3)[:rank], (2, 2, 1)[:rank], (1, 1, 0)[:rank]
    extents = (7, 5, 4)[:rank]
    return Case(
        lambda x: made(x, size, stride, padding), lambda x: pooled(x, size, stride, padding, kind=kind),
        (f(2, 3, *extents),),
        ((lambda: made(np.ones((2, *(2,) * rank)), 3), "do not fit images"),
         (lambda: made(np.ones((2, *(2,) * rank)), 2, padding=2), "nothing but padding"),
         (lambda: made(np.ones((2, *(2,) * rank)), (2,) * (rank + 1)), "size=(2")),
        (f(0, 3, *extents),), (f(2, 3, *extents),), slack=4,
    )  # fmt: skip


def _adaptive(rank: int, kind: str) -> Case:
    made = getattr(op, f"adaptive_{kind}_pool{rank}d")
    size, extents = (3, 2, 4)[:rank], (7, 6, 3)[:rank]
    return Case(
        lambda x: made(x, size), lambda x: adaptively_pooled(x, size, kind=kind), (f(2, 3, *extents),),
        ((lambda: made(np.ones((2, *(2,) * rank)), 0), "of size 0"), (lambda: made(np.ones((0,) * rank), 1), "of (0,")),
        (f(0, 3, *extents),), (f(2, 3, *extents),), slack=4,
    )  # fmt: skip


IMAGES: Final[dict[str, Case]] = {
    **{f"conv{rank}d": _convolved(rank) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": _transposed(rank) for rank in (1, 2, 3)},
    **{f"{kind}_pool{rank}d": _pool(rank, kind) for kind in ("avg", "max") for rank in (1, 2, 3)},
    **{f"adaptive_{kind}_pool{rank}d": _adaptive(rank, kind) for kind in ("avg", "max") for rank in (1, 2, 3)},
    "im2col": Case(
        lambda x: op.im2col(x, (3, 2), (2, 1), (1, 2), (1, 3)), _patches, (f(2, 3, 9, 7),),
        ((lambda: op.im2col(ELSE, 2), "im2col of (3,)"),
         (lambda: op.im2col(np.ones((1, 2, 2)), 3), "patches of 3 x 3 do not fit images of 2 x 2"),
         (lambda: op.im2col(np.ones((1, 4, 4)), 2, 0), "stride 0")),
        (f(0, 3, 9, 7),), (f(2, 3, 9, 7),),
    ),
    "interpolate": Case(
        lambda x: op.interpolate(x, (4, 9), mode="bilinear"),
        lambda x: resampled(resampled(x, 2, 4, 5 / 4, "linear"), 3, 9, 7 / 9, "linear"), (f(2, 3, 5, 7),),
        ((lambda: op.interpolate(np.ones((1, 1, 2)), 3, mode="bilinear"), "mode='bilinear' of (1, 1, 2)"),
         (lambda: op.interpolate(np.ones((1, 1, 2))), "to no size"),
         (lambda: op.interpolate(np.ones((1, 1, 2)), 3, mode="cubic"), "no mode 'cubic'")),
        (f(0, 3, 5, 7),), slack=8,
    ),
}  # fmt: skip

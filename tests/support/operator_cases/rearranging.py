"""Rows of operators that rearrange, sort and reduce elements."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

from typing import Final

import numpy as np

from support.operator_cases.case import ELSE, Case, Numbers, f, i
from tessera import op

PAIR: Final = np.ones((2, 3))


def _windows(x: Numbers, axis: int, size: int, step: int) -> Numbers:
    every = (slice(None),) * axis
    return np.lib.stride_tricks.sliding_window_view(x, size, axis)[(*every, slice(None, None, step))]


def _falling(x: Numbers, k: int) -> tuple[Numbers, Numbers]:
    order = np.argsort(-x, 1, kind="stable")[:, :k]
    return np.take_along_axis(x, order, 1), order


REARRANGING: Final[dict[str, Case]] = {
    "expand_dims": Case(
        lambda x: op.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1)), (f(5, 7),),
        ((lambda: op.expand_dims(ELSE, 3), "no axis 3"), (lambda: op.expand_dims(ELSE, (0, 0)), "twice")), (f(0, 7),),
    ),
    "flatten": Case(
        lambda x: op.flatten(x, 1), lambda x: x.reshape(5, x.shape[1] * 3), (f(5, 7, 3),),
        ((lambda: op.flatten(PAIR, 1, 0), "axes 1 to 0"), (lambda: op.flatten(ELSE, 1), "no axis 1")), (f(5, 0, 3),),
    ),
    "flip": Case(
        lambda x: op.flip(x, (0, -1)), lambda x: np.flip(x, (0, -1)), (f(5, 7, 3),),
        ((lambda: op.flip(ELSE, 1), "no axis 1"),), (f(5, 0, 3),),
    ),
    "moveaxis": Case(
        lambda x: op.moveaxis(x, (0, 1), (-1, 0)), lambda x: np.moveaxis(x, (0, 1), (-1, 0)), (f(5, 7, 3),),
        ((lambda: op.moveaxis(PAIR, (0, 1), 0), "2 axes do not move to 1"),
         (lambda: op.moveaxis(PAIR, (0, 0), (0, 1)), "twice")), (f(5, 0, 3),),
    ),
    "outer": Case(
        op.outer, np.outer, (f(5), f(7)), ((lambda: op.outer(PAIR, ELSE), "takes arrays of one axis"),), (f(0), f(7)),
    ),
    "repeat": Case(
        lambda x: op.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1), (f(5, 7),),
        ((lambda: op.repeat(ELSE, -1), "repeated -1 times"), (lambda: op.repeat(ELSE, [1, 2, 3]), "one number"),
         (lambda: op.repeat(ELSE, 2, 1), "no axis 1")), (f(5, 0),),
    ),
    "roll": Case(
        lambda x: op.roll(x, (2, -3), (0, 1)), lambda x: np.roll(x, (2, -3), (0, 1)), (f(5, 7),),
        ((lambda: op.roll(PAIR, (1, 2, 3), (0, 1)), "3 shifts of 2 axes"), (lambda: op.roll(ELSE, 1, 1), "no axis 1")),
        (f(5, 0),),
    ),
    "squeeze": Case(
        op.squeeze, np.squeeze, (f(1, 5, 1, 7),),
        ((lambda: op.squeeze(PAIR, 1), "axis 1 of (2, 3) has 3 elements"), (lambda: op.squeeze(PAIR, 2), "no axis 2")),
        (f(1, 0, 1),),
    ),
    "swapaxes": Case(
        lambda x: op.swapaxes(x, 0, -1), lambda x: x.swapaxes(0, -1), (f(5, 7, 3),),
        ((lambda: op.swapaxes(ELSE, 0, 1), "no axis 1"),), (f(5, 0, 3),),
    ),
    "tile": Case(
        lambda x: op.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), (f(5, 7),),
        ((lambda: op.tile(ELSE, -2), "repeated -2 times"),), (f(0, 7),),
    ),
    "tril": Case(
        lambda x: op.tril(x, 1), lambda x: np.tril(x, 1), (f(5, 7),), ((lambda: op.tril(ELSE), "tril of (3,)"),),
        (f(0, 7),), (f(2, 5, 7),),
    ),
    "triu": Case(
        lambda x: op.triu(x, -1), lambda x: np.triu(x, -1), (f(5, 7),), ((lambda: op.triu(ELSE), "triu of (3,)"),),
        (f(5, 0),), (f(2, 5, 7),),
    ),
    "unfold": Case(
        lambda x: op.unfold(x, 1, 3, 2), lambda x: _windows(x, 1, 3, 2), (f(5, 8),),
        ((lambda: op.unfold(ELSE, 0, 4), "windows of 4 elements"), (lambda: op.unfold(ELSE, 0, 2, 0), "in steps of 0")),
        (f(0, 7),),
    ),
    "argsort": Case(
        lambda x: op.argsort(x, 1), lambda x: np.argsort(x, 1), (f(5, 7, 3),),
        ((lambda: op.argsort(ELSE, 1), "no axis 1"),), (f(5, 0, 3),), smooth=False,
    ),
    "sort": Case(
        lambda x: op.sort(x, 1), lambda x: np.sort(x, 1), (f(5, 7, 3),), ((lambda: op.sort(ELSE, 1), "no axis 1"),),
        (f(5, 0, 3),),
    ),
    "top_k": Case(
        lambda x: op.top_k(x, 3), lambda x: _falling(x, 3), (f(5, 7),),
        ((lambda: op.top_k(ELSE, 4), "the 4 greatest of 3"), (lambda: op.top_k(ELSE, 1, None), "is not one axis")),
        (f(0, 7),),
    ),
}  # fmt: skip


REDUCTIONS: Final[dict[str, Case]] = {
    "all": Case(
        lambda x: op.all(x, 1), lambda x: x.all(1), (i(5, 7, high=9),), ((lambda: op.all(ELSE, 1), "no axis 1"),),
        (i(5, 0),), smooth=False,
    ),
    "any": Case(
        lambda x: op.any(x, 0), lambda x: x.any(0), (i(2, 7, high=2),), ((lambda: op.any(ELSE, 1), "no axis 1"),),
        (i(0, 7),), smooth=False,
    ),
    "argmax": Case(
        lambda x: op.argmax(x, 1), lambda x: x.argmax(1), (f(5, 7, 3),),
        ((lambda: op.argmax(np.ones((3, 0))), "of no elements has no place"), (lambda: op.argmax(ELSE, 1), "no axis 1"),
         (lambda: op.argmax(np.ones((0, 3)), None), "of no elements")), (f(0, 7, 3),), smooth=False,
    ),
    "argmin": Case(
        lambda x: op.argmin(x, 1), lambda x: x.argmin(1), (f(5, 7, 3),),
        ((lambda: op.argmin(np.ones((3, 0))), "the least of no elements"), (lambda: op.argmin(ELSE, 1), "no axis 1")),
        (f(0, 7, 3),), smooth=False,
    ),
    "count_nonzero": Case(
        lambda x: op.count_nonzero(x, 1), lambda x: np.count_nonzero(x, 1), (i(5, 7, high=2),),
        ((lambda: op.count_nonzero(ELSE, 1), "no axis 1"),), (i(5, 0),), smooth=False,
    ),
    "max": Case(
        lambda x: op.max(x, 1), lambda x: x.max(1), (f(5, 7, 3),), ((lambda: op.max(ELSE, 1), "has no axis 1"),),
        (f(0, 7, 3),),
    ),
    "mean": Case(
        lambda x: op.mean(x, 0), lambda x: x.mean(0), (f(5, 7),), ((lambda: op.mean(ELSE, 1), "has no axis 1"),),
        (f(5, 0),),
    ),
    "min": Case(
        lambda x: op.min(x, (0, -1)), lambda x: x.min((0, 2)), (f(5, 7, 3),),
        ((lambda: op.min(ELSE, 1), "has no axis 1"),), (f(5, 0, 3),),
    ),
    "prod": Case(
        lambda x: op.prod(x, (0, 2)), lambda x: x.prod((0, 2)), (f(5, 7, 3),),
        ((lambda: op.prod(ELSE, 1), "no axis 1"), (lambda: op.prod(PAIR, (0, 0)), "twice")), (f(5, 0, 3),), slack=8,
    ),
    "cumprod": Case(
        lambda x: op.cumprod(x, 1), lambda x: x.cumprod(1), (f(3, 11, 2),), ((lambda: op.cumprod(ELSE, 1), "no axis 1"),),
        (f(3, 0, 2),), slack=8,
    ),
    "std": Case(
        lambda x: op.std(x, 1, ddof=1), lambda x: x.std(1, ddof=1), (f(5, 7),), ((lambda: op.std(ELSE, 1), "no axis 1"),),
        (f(0, 7),), slack=3,
    ),
    "sum": Case(
        lambda x: op.sum(x, (0, 2), keepdims=True), lambda x: x.sum((0, 2), keepdims=True), (f(5, 7, 3),),
        ((lambda: op.sum(ELSE, 1), "has no axis 1"), (lambda: op.sum(np.ones((2, 2)), (0, 0)), "twice")), (f(0, 7, 3),),
    ),
    "var": Case(
        lambda x: op.var(x, -1), lambda x: x.var(-1), (f(5, 7),), ((lambda: op.var(ELSE, 1), "has no axis 1"),),
        (f(0, 7),), slack=3,
    ),
}  # fmt: skip

"""Rows of normalizations and of layers made of a product."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

from typing import Final

import numpy as np

from support.operator_cases.case import ELSE, Case, Numbers, f
from tessera import op


def _along(x: Numbers, axes: tuple[int, ...]) -> Numbers:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)


def _batch(x: Numbers, w: Numbers, b: Numbers) -> Numbers:
    return _along(x, (0, 2)) * w[:, None] + b[:, None] if x.size else x


def _instance(x: Numbers, w: Numbers, b: Numbers) -> Numbers:
    return _along(x, (2,)) * w[:, None] + b[:, None] if x.size else x


def _group(x: Numbers, w: Numbers, b: Numbers) -> Numbers:
    split = x.reshape(x.shape[0], 2, x.shape[1] // 2, x.shape[2])
    return _along(split, (2, 3)).reshape(x.shape) * w[:, None] + b[:, None] if x.size else x


IMAGES: Final = np.ones((2, 4, 3))
NORMALIZATIONS: Final[dict[str, Case]] = {
    "batch_norm": Case(
        lambda x, w, b: op.batch_norm(x, None, None, w, b), _batch, (f(3, 5, 7), f(5), f(5)),
        ((lambda: op.batch_norm(ELSE), "has no axis 1"), (lambda: op.batch_norm(IMAGES, np.ones(4)), "has mean and no var"),
         (lambda: op.batch_norm(IMAGES, weight=ELSE), "a weight of (3,) for 4 channels")),
        (f(0, 5, 7), f(5), f(5)), slack=8,
    ),
    "group_norm": Case(
        lambda x, w, b: op.group_norm(x, 2, w, b), _group, (f(3, 6, 7), f(6), f(6)),
        ((lambda: op.group_norm(IMAGES, 3), "do not make 3 equal groups"),
         (lambda: op.group_norm(ELSE, 1), "has no channels"),
         (lambda: op.group_norm(IMAGES, 2, bias=ELSE), "a bias of (3,) for 4 channels")),
        (f(0, 6, 7), f(6), f(6)), slack=8,
    ),
    "instance_norm": Case(
        op.instance_norm, _instance, (f(3, 5, 7), f(5), f(5)),
        ((lambda: op.instance_norm(np.ones((2, 3))), "no axis after the channels"),
         (lambda: op.instance_norm(np.ones((2, 3, 1))), "one value has no variance")),
        (f(0, 5, 7), f(5), f(5)), slack=8,
    ),
    "normalize": Case(
        lambda x: op.normalize(x, 3.0, axis=-1), lambda x: x / np.linalg.norm(x, 3, -1, keepdims=True), (f(5, 7),),
        ((lambda: op.normalize(ELSE), "has no axis 1"), (lambda: op.normalize(IMAGES, 0.5), "no 0.5-norm")),
        (f(0, 7),), (f(2, 5, 7),), slack=4,
    ),
    "linear": Case(
        op.linear, lambda x, w, b: x @ w.T + b, (f(5, 7), f(3, 7), f(3)),
        ((lambda: op.linear(IMAGES, np.ones((2, 4))), "have no inner extent in common"),
         (lambda: op.linear(IMAGES, np.ones((2, 3)), ELSE), "a bias of (3,) for a weight of (2, 3)")),
        (f(0, 7), f(3, 7), f(3)), slack=4,
    ),
}  # fmt: skip

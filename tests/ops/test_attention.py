"""`flash_attention` and its gradients against NumPy in f64: any lengths, grouped heads, causal or not."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.library import attention, attention_gradients, error, normal
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden
from tessera.ops import flash_attention, flash_attention_backward
from tessera.ops.attention import prepare_flash_attention, prepare_flash_attention_backward
from tessera.performance import schedules

SMALL = {"BM": 32, "BN": 16}
LENGTHS = st.integers(1, 80)


def operands(batch: int, heads: int, share: int, queries: int, keys: int, width: int = 16, dtype: type = np.float32):
    return (
        normal(batch, heads * share, queries, width, dtype=dtype), normal(batch, heads, keys, width, dtype=dtype),
        normal(batch, heads, keys + 1, width, dtype=dtype)[:, :, 1:].copy(),
    )  # fmt: skip


def check(arrays: tuple[np.ndarray, ...], causal: bool, scale: float | None = None, tolerance: float = 4e-6) -> None:
    q, k, v = arrays
    out, lse = flash_attention(q, k, v, causal=causal, scale=scale, lse=True, schedule=SMALL)
    want, want_lse, *_ = attention(q, k, v, causal=causal, scale=scale)
    assert error(out, want) < tolerance
    assert np.abs(lse - want_lse).max() < 1e-5 + 1e-6 * np.abs(want_lse).max()
    grad = normal(*q.shape, dtype=q.dtype) + q
    found = flash_attention_backward(grad, q, k, v, out, lse, causal=causal, scale=scale, schedule=SMALL)
    for got, expected in zip(found, attention_gradients(grad, q, k, v, causal=causal, scale=scale), strict=True):
        assert np.abs(got - expected).max() < 10 * tolerance * max(1.0, np.abs(expected).max())


@given(st.integers(1, 2), st.integers(1, 2), st.integers(1, 3), LENGTHS, LENGTHS, st.booleans(),
       st.sampled_from([None, 1.0, 0.05]))  # fmt: skip
@settings(max_examples=6)
def test_interpreted(batch: int, heads: int, share: int, queries: int, more: int, causal: bool, scale: float | None):
    with overridden(target="interpret"):
        check(operands(batch, heads, share, queries, queries + more if causal else more), causal, scale)


@given(st.integers(1, 3), LENGTHS, LENGTHS, st.booleans())
@settings(max_examples=10)
def test_compiled(share: int, queries: int, more: int, causal: bool):
    check(operands(2, 2, share, queries, queries + more if causal else more), causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(40, 40), (33, 130), (150, 150), (129, 263)])
def test_kept_gradients_of_scores_give_the_same(monkeypatch: pytest.MonkeyPatch, causal: bool, queries: int, keys: int):
    """Of one key head at a time, of two, and of all four: what is kept is the same, and so are the products' sums."""
    arrays = operands(2, 2, 3, queries, keys)
    out, lse = flash_attention(*arrays, causal=causal, lse=True, schedule=SMALL)
    grad = normal(*out.shape)

    def gradients(together: int) -> tuple[np.ndarray, ...]:
        monkeypatch.setattr(schedules, "heads_together", lambda *_: together)
        call = prepare_flash_attention_backward(grad, *arrays, out, lse, causal=causal, schedule=SMALL)
        assert len(call.launches) == (1 + 8 // together if together else 3)
        for launch in call.launches[1 : 2 if together else 1]:  # nobody may read what was not written
            kept = launch.arguments[6]
            assert isinstance(kept, np.ndarray)
            kept.fill(np.nan)
        return call.run()

    twice, *kept = (gradients(together) for together in (0, 1, 2, 4))
    for one in kept:
        assert all(np.array_equal(a, b) for a, b in zip(one, kept[0], strict=True))
        assert all(np.abs(a - b).max() < 4e-6 * np.abs(b).max() for a, b in zip(one, twice, strict=True))


def test_parts_are_not_taken_of_arrays_with_gaps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schedules, "heads_together", lambda *_: 1)
    q, k, v = operands(1, 2, 1, 20, 20)
    out, lse = flash_attention(q, k, v, lse=True)
    wide = np.concatenate([q, q], axis=3)[..., :16]
    call = prepare_flash_attention_backward(out, wide, k, v, out, lse)
    names = [launch.kernel.source.name for launch in call.launches]
    assert names == ["attention_delta", "attention_backward_keys", "attention_backward_queries"]
    for got, expected in zip(call.run(), attention_gradients(out, q, k, v, causal=False), strict=True):
        assert np.abs(got - expected).max() < 4e-5 * np.abs(expected).max()


def test_scores_far_below_zero_leave_no_trace_of_the_edge():
    """Keys past the end have score 0, larger than any real one here: their weights must not be taken."""
    q, k, v = operands(1, 1, 1, 40, 37)
    q, k = np.abs(q) * 20, -np.abs(k) * 20
    check((q, k, v), False, tolerance=1e-4)
    check((q, np.concatenate([k, k], axis=2), np.concatenate([v, v], axis=2)), True, tolerance=1e-4)


def test_gradients_are_the_slopes_of_the_result():
    """Against differences of the f64 reference itself, in one direction for each operand."""
    arrays = operands(1, 1, 2, 9, 12)
    q, k, v = (array.astype(np.float64) for array in arrays)
    grad, step = normal(*q.shape), 1e-5
    out, lse = flash_attention(*arrays, causal=True, lse=True, schedule=SMALL)
    found = flash_attention_backward(grad, *arrays, out, lse, causal=True, schedule=SMALL)
    for place, got in enumerate(found):
        direction = normal(*got.shape) + 1
        ahead, behind = ([x + sign * step * direction if i == place else x for i, x in enumerate((q, k, v))]
                         for sign in (1, -1))  # fmt: skip
        slope = ((attention(*ahead, causal=True)[0] - attention(*behind, causal=True)[0]) * grad).sum() / (2 * step)
        assert abs((got * direction).sum() - slope) < 1e-4 * max(1.0, abs(slope))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_sixteen_bits(dtype: type):
    q, k, v = operands(1, 2, 1, 50, 70, dtype=dtype)
    with overridden(target="interpret"):
        out = flash_attention(q, k, v, schedule=SMALL)
    assert out.dtype == dtype
    assert error(out, attention(q, k, v, causal=False)[0]) < (8e-3 if dtype is ml_dtypes.bfloat16 else 1e-3)


def test_the_log_sum_exp_is_only_written_where_it_is_wanted():
    arrays = operands(1, 1, 1, 8, 8)
    (without,), (with_lse,) = (prepare_flash_attention(*arrays, lse=lse).launches for lse in (False, True))
    assert (without.kernel.source.name, with_lse.kernel.source.name) == (
        "attention_forward", "attention_forward_with_lse",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "more", "message"),
    [
        (((2, 8, 16), (1, 2, 8, 16), (1, 2, 8, 16)), {}, "q has 3 axes, not 4"),
        (((1, 2, 8, 16), (1, 2, 8, 16), (1, 2, 9, 16)), {}, "k is 1 x 2 x 8 x 16 and v 1 x 2 x 9 x 16"),
        (((1, 3, 8, 16), (1, 2, 8, 16), (1, 2, 8, 16)), {}, "3 query heads cannot share 2 key heads"),
        (((1, 2, 8, 16), (1, 2, 8, 32), (1, 2, 8, 32)), {}, "queries are 16 wide and keys 32"),
        (((2, 2, 8, 16), (1, 2, 8, 16), (1, 2, 8, 16)), {}, "q holds 2 sequences and k 1"),
        (((1, 2, 9, 16), (1, 2, 8, 16), (1, 2, 8, 16)), {"causal": True}, "9 queries cannot look back on 8 keys"),
        (((1, 2, 8, 16), (1, 2, 8, 16), (1, 2, 8, 16)), {"scale": -1.0}, "scale is -1.0"),
        (((1, 2, 0, 16), (1, 2, 8, 16), (1, 2, 8, 16)), {}, "empty"),
    ],
)
def test_operands_that_do_not_fit(shapes: tuple[tuple[int, ...], ...], more: dict[str, Any], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        flash_attention(*(normal(*shape) for shape in shapes), **more)


def test_a_backward_pass_needs_what_the_forward_pass_gave():
    q, k, v = operands(1, 1, 1, 8, 8)
    out, lse = flash_attention(q, k, v, lse=True)
    with pytest.raises(OperandMismatch, match="grad is 1 x 1 x 8 x 8, not 1 x 1 x 8 x 16"):
        flash_attention_backward(out[..., :8], q, k, v, out, lse)
    with pytest.raises(OperandMismatch, match="lse is f32 1 x 1 x 4"):
        flash_attention_backward(out, q, k, v, out, lse[..., :4])

"""Waiting for a GPU that answers late, or never."""

from support.interrupts import ctrl_c_inside
from tessera.runtime.driver.polling import poll


def test_a_wait_that_is_not_over_asks_again():
    answers = iter([False] * 50 + [True])
    poll(lambda: next(answers))
    assert list(answers) == []


def test_ctrl_c_ends_a_wait_for_a_gpu_that_never_answers():
    with ctrl_c_inside(poll):
        poll(lambda: False)

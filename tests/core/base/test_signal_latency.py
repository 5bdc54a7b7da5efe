"""The length of a wait's step; what keeps to it is tested where it waits."""

from tessera.core.base.signal_latency import LOOK


def test_two_steps_are_within_a_fifth_of_a_second():
    assert 0 < 2 * LOOK < 0.2

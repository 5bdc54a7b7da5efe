"""Machines by their data sheets."""

import pytest

from tessera.performance.reference_machines import reference_machine


def test_an_h200_stands_for_hopper():
    machine = reference_machine("sm_90a")
    assert (machine.name, machine.units, machine.unit, machine.on_gpu) == ("NVIDIA H200 SXM", 132, "SM", True)
    assert machine.rate("dot bf16") == pytest.approx(1e15, rel=0.1)  # 989 TFLOP/s dense at a lower boost clock
    assert "data sheet" in machine.source


def test_unknown_architectures_are_refused():
    with pytest.raises(ValueError, match="no data sheet for 'sm_10'"):
        reference_machine("sm_10")

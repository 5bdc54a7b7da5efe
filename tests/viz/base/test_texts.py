"""Texts that are the same on every machine."""

from tessera.viz.base.texts import without_host


def test_the_processor_is_left_out():
    assert without_host("k for cpu:znver3: tile; cuda:sm_90a") == "k for cpu: tile; cuda:sm_90a"
    assert without_host("cpu:x86-64-v3 and cpu") == "cpu and cpu"

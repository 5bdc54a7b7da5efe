"""The structures of cuda.h, and the reports of faults."""

import ctypes

from tessera.core.base.source import NOWHERE, Source, Span
from tessera.runtime.driver.descriptors import (
    KernelNode,
    LaunchAttribute,
    LaunchConfig,
    Launched,
    after_fault,
    fault,
    in_turn,
    launch_config,
)

SOURCE = Source("cell.py", "def k(x): ...\n")
KERNEL = Launched("k", Span("cell.py", 1, 5, 1, 6), SOURCE)


def test_the_structures_have_the_drivers_sizes():
    assert ctypes.sizeof(LaunchConfig) == 56
    assert (LaunchConfig.stream.offset, LaunchConfig.attributes.offset) == (32, 40)
    assert ctypes.sizeof(LaunchAttribute) == 72
    assert LaunchAttribute.x.offset == 8
    assert ctypes.sizeof(KernelNode) == 72
    assert KernelNode.parameters.offset == 40


def test_a_launch_of_clusters_has_an_attribute_that_lives_as_long():
    config = launch_config(8, 128, 1024, cluster=4, stream=7)
    assert (config.grid_x, config.grid_y, config.block_x, config.shared, config.stream) == (8, 1, 128, 1024, 7)
    attribute = LaunchAttribute.from_address(config.attributes)
    assert (config.attribute_count, attribute.id, attribute.x, attribute.y, attribute.z) == (1, 4, 4, 1, 1)
    plain = launch_config(8, 128, 0)
    assert (plain.attribute_count, plain.attributes, plain.stream) == (0, None, None)


def test_a_launch_that_may_begin_early_says_so_behind_its_clusters():
    config = launch_config(8, 128, 1024, cluster=2, early=True)
    attributes = (LaunchAttribute * 2).from_address(config.attributes)
    assert (config.attribute_count, [(one.id, one.x) for one in attributes]) == (2, [(4, 2), (6, 1)])
    alone = launch_config(8, 128, 0, early=True)
    attribute = LaunchAttribute.from_address(alone.attributes)
    assert (alone.attribute_count, attribute.id, attribute.x) == (1, 6, 1)


def test_a_launch_in_turn_keeps_its_clusters():
    config = launch_config(8, 128, 1024, cluster=2, stream=9, early=True)
    turned = in_turn(config)
    attribute = LaunchAttribute.from_address(turned.attributes)
    assert (turned.attribute_count, attribute.id, attribute.x) == (1, 4, 2)
    assert (turned.grid_x, turned.block_x, turned.shared, turned.stream) == (8, 128, 1024, 9)
    assert config.attribute_count == 2
    alone = in_turn(launch_config(8, 128, 0, early=True))
    assert (alone.attribute_count, alone.attributes) == (0, None)
    assert in_turn(launch_config(8, 128, 0)).attribute_count == 0


def test_a_node_has_the_size_of_its_launch():
    config = launch_config(8, 128, 1024)
    node = KernelNode.of(ctypes.c_void_p(5), config, ctypes.c_void_p(6))
    assert (node.function, node.grid_x, node.grid_z, node.block_x, node.shared) == (5, 8, 1, 128, 1024)
    assert (node.parameters, node.extra) == (6, None)


def test_a_fault_that_no_kernel_of_ours_can_have_made():
    error = fault("an illegal instruction was encountered", ())
    assert error.message.startswith("an illegal instruction was encountered; the process's CUDA context is lost")
    assert error.span == NOWHERE


def test_what_comes_after_a_fault_names_it():
    error = after_fault(fault("misaligned address", (KERNEL,)))
    assert "earlier fault" in error.message
    assert "kernel k: misaligned address" in error.message
    assert (error.span, error.source) == (KERNEL.span, SOURCE)

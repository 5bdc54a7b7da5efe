"""Stores inside loops: each warp gathers its rows and starts their copy."""

import re

from lowering.cuda.hopper import code, gradients, places
from support.simulate import compile_ptx

GLOBAL = r"cp\.async\.bulk\.tensor\.5d\.global\.shared::cta"


def test_a_warp_stores_its_rows_without_waiting_for_another():
    text = code(gradients())
    (store,) = places(text, GLOBAL)
    boxes = [slot.tensor_map for slot in compile_ptx(gradients()).slots if slot.tensor_map is not None]
    (box,) = (one for one in boxes if len(one.box) == 5)
    assert (box.box, box.swizzle, box.stored) == ((1, 1, 1, 16, 64), 128, True)
    commits = places(text, r"wgmma\.commit_group")
    inside = text[commits[-1] : store]
    assert inside.count("st.shared.b32") == 16  # 64 x 64 elements of two warp groups' lanes each, in pairs
    assert inside.count("bar.warp.sync") == 2
    assert not re.search(r"bar\.sync", inside)


def test_the_buffer_is_free_before_it_is_written():
    text = code(gradients())
    written = places(text, r"st\.shared\.b32")[0]
    assert text.rindex("cp.async.bulk.wait_group.read 0", 0, written) > text.rindex("wgmma.commit_group", 0, written)


def test_addresses_are_made_where_they_are_used():
    """One register of a lane is kept from round to round, not one for each store."""
    text = code(gradients())
    commits = places(text, r"wgmma\.commit_group")
    (store,) = places(text, GLOBAL)
    stores = re.findall(r"st\.shared\.b32\s+\[(%\w+)(?:\+\d+)?\]", text[commits[-1] : store])
    assert len(set(stores)) == 8

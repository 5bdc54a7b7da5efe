"""What operations of CUDA, Triton and NumPy are in Tessera: remedies for names that people bring along."""

from typing import Final

_SHUFFLES: Final = "exchange values with tile.warp_shuffle_up, _down, _xor or _idx, or through shared memory"
_REMEDIES: Final = {
    "syncthreads": "write tbarrier()",
    "debugbarrier": "write tbarrier()",
    "syncwarp": "write tile.cooperative_group(size=32).sync()",
    "threadidx": "write tile.linear_id(), or tile.linear_id(axis): the last axis is CUDA's x",
    "blockidx": "write group_linear_id(), or tile.group_id(axis): the last axis is CUDA's x",
    "programid": "write group_linear_id(), tile.group_id(axis), or a loop over tile.range, whose trips become groups",
    "blockdim": "write group_tile_count()",
    "griddim": "write grid_group_count()",
    "numprograms": "write grid_group_count()",
    "shfldown": "write tile.warp_shuffle_down(v, d)",
    "shfldownsync": "write tile.warp_shuffle_down(v, d)",
    "shflup": "write tile.warp_shuffle_up(v, d)",
    "shflupsync": "write tile.warp_shuffle_up(v, d)",
    "shflxor": "write tile.warp_shuffle_xor(v, mask)",
    "shflxorsync": "write tile.warp_shuffle_xor(v, mask)",
    "shflsync": "write tile.warp_shuffle_idx(v, lane)",
    "ballot": _SHUFFLES,
    "ballotsync": _SHUFFLES,
    "cumsum": _SHUFFLES,
    "associativescan": _SHUFFLES,
    "sort": _SHUFFLES,
    "warpreducesum": "add tile.warp_shuffle_xor(v, o) for o in [16, 8, 4, 2, 1], or use tile.sum on a tile",
    "mean": "divide tile.sum by the number of elements",
    "var": "sum the squares of what is left when the mean is taken away",
    "argmax": "write tile.min(tile.where(t == tile.max(t), tile.arange(n), n)), the first index of the maximum",
    "argmin": "write tile.min(tile.where(t == tile.min(t), tile.arange(n), n)), the first index of the minimum",
    "sigmoid": "write 1 / (1 + tile.exp(-v))",
    "any": "write tile.max(condition)",
    "all": "write tile.min(condition)",
    "rand": "compute a hash of the element's index and a seed, in u32",
    "randn": "compute a hash of the element's index and a seed, in u32",
    "gather": "index an array by a number, lane by lane or row by row: x[ids[i], :]",
    "np": "use the operations of tile",
    "numpy": "use the operations of tile",
    "torch": "use the operations of tile",
    "tl": "use the operations of tile",
}
_NO_ATOMICS: Final = (
    "there are no atomic operations, whose order changes from run to run: give each group an element of its own, and "
    "add these in a second kernel"
)


def remedy_for(name: str) -> str:
    """What to write instead of `name`, an operation of CUDA, Triton or NumPy in any spelling, or an empty string."""
    plain = name.replace("_", "").lower()
    return _NO_ATOMICS if plain.startswith("atomic") else _REMEDIES.get(plain, "")

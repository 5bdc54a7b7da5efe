"""Profile records of a launch, one a group, and how a record lies in memory.

A kernel is compiled to write records when its program carries the option `OPTION`, which is part of the artifact's
key: an ordinary kernel carries nothing of it.  Its artifact then has one slot of kind "profile": the address of zeroed
memory with a record of `RECORD_BYTES` for each group of the launch, in the order of the groups.  The option's value n,
a power of two, says that only every n-th group, from group 0, writes one: where groups are so short that looking at
the clock takes as long as they do.

Words of a record, each an unsigned 64-bit number:

    0  START   time at which the group began, in ns: `%globaltimer` on a GPU, CLOCK_MONOTONIC on the CPU
    1  END     the same at its end
    2  WORKER  (CPU) which thread ran it; (GPU) the multiprocessor's cycle counter at the beginning
    3  PLACE   low 32 bits: the multiprocessor or core (NO_PLACE: not known); bits above: RAN, the group was run
    4  LOAD    (GPU) cycles spent waiting for loads, summed over all turns; likewise 5 COMPUTE and 6 STORE.  Where only
               COMPUTE is missing, it is the rest of the group's time.
    7  CYCLES  (GPU) the cycle counter at the end

On a GPU one lane writes, the group's first: times are that lane's.  The cycle counter is finer than `%globaltimer`.
"""

import dataclasses
from typing import Final

from tessera.core.program.program import Program

OPTION: Final = "tessera.profile"
"""The schedule option; its name cannot be that of a tuning parameter, which is a Python name."""

WORD: Final = 8
WORDS: Final = 8
RECORD_BYTES: Final = WORD * WORDS
START: Final = 0
END: Final = 1
WORKER: Final = 2
PLACE: Final = 3
CYCLES: Final = 7
PHASES: Final = ("load", "compute", "store")
FIRST_PHASE: Final = 4
RAN: Final = 1 << 32
NO_PLACE: Final = RAN - 1


def with_profile(program: Program, every: int = 1) -> Program:
    """Return `program`, to be compiled so that every `every`-th group (a power of two) writes a record."""
    return dataclasses.replace(program, options={**program.options, OPTION: every})


def wants_profile(program: Program) -> int:
    """How many groups there are to a record, if `program` is to be compiled so that it writes any; else 0."""
    every = program.options.get(OPTION)
    return every if isinstance(every, int) else 0

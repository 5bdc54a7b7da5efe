"""Compile several programs at once, one in each compiler process, and equal ones once."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from tessera.core.base.interrupts import LOOK, deferred_interrupts, stoppable
from tessera.core.program.program import Program
from tessera.core.progress import working
from tessera.core.settings import current
from tessera.core.targets import Target
from tessera.lowering.artifact_cache.key import code_key
from tessera.session.compiled import Compiled
from tessera.session.session import Session


def compile_together(
    session: Session, programs: Sequence[Program], target: Target, *, exact: bool = False
) -> tuple[Compiled, ...]:  # fmt: skip
    """Return the compilations of `programs`, in order; those that differ in names alone are one.

    exact: see `Session.compile`

    Raises the mistake of the first one that has any; what still runs then, or at Ctrl-C, is ended.
    """
    keys = [code_key(program, target) for program in programs]
    distinct = dict(reversed(list(zip(keys, programs, strict=True))))
    wanted = {key: distinct[key] for key in dict.fromkeys(keys)}
    if len(wanted) < 2:
        made = {key: session.compile(program, target, exact=exact) for key, program in wanted.items()}
    else:
        made = dict(zip(wanted, _at_once(session, list(wanted.values()), target, exact), strict=True))
    return tuple(made[key] for key in keys)


def _at_once(session: Session, programs: Sequence[Program], target: Target, exact: bool) -> list[Compiled]:
    stop = threading.Event()

    def compiled(program: Program) -> Compiled:
        with stoppable(stop):
            return session.compile(program, target, exact=exact)

    title = f"compiling {len(programs)} kernels for {target.name}"
    with working(title, len(programs)) as task, deferred_interrupts() as deferral:
        pool = ThreadPoolExecutor(min(len(programs), current().workers), thread_name_prefix="tessera-compile")
        begun: dict[int, Future[Compiled]] = {}
        try:
            for number in _longest_first(programs):
                begun[number] = pool.submit(compiled, programs[number])
            futures = [begun[number] for number in range(len(programs))]
            for future in futures:
                while not wait([future], LOOK).done:
                    task.step(sum(each.done() for each in futures))
                    deferral.deliver()
                future.result()
            return [future.result() for future in futures]
        finally:
            stop.set()
            for future in begun.values():
                future.cancel()
            wait(begun.values())  # a compiler that is told to stop is ended within `LOOK`
            pool.shutdown(wait=False)


def _longest_first(programs: Sequence[Program]) -> list[int]:
    """Return the numbers of the programs, those with most operations first: what begins last should not take long."""
    sizes = [sum(1 for _ in program.body.walk()) for program in programs]
    return sorted(range(len(programs)), key=lambda number: (-sizes[number], number))

"""Loops with two products in a row, as attention has: the second one runs beside the next round's first.

before: `for i: s = dot(q, k[i]); p, c = f(s, c); acc = dot(p, v[i], g(acc))`
after:  the product with v[i] is issued in round i + 1, right behind the one with k[i + 1], and waited for where its
        sum is first used: the arithmetic on s goes on meanwhile.  The first round has none to issue, and the last one
        is issued behind the loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.tiles import assembly, stages
from tessera.lowering.target.cuda.tiles.pipeline import OverlapPlan
from tessera.lowering.target.cuda.tiles.ring import Round
from tessera.lowering.target.cuda.tiles.stages import Stages
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import RegisterTile
from tessera.lowering.target.cuda.tiles.wgmma import GROUP_LANES, Factor, Product, group_number, issue

_FIRST_BARRIER = 2


class Host(stages.Host, Protocol):
    """What an overlapped loop asks of the code around it."""

    stages: Stages


@dataclass(frozen=True, slots=True)
class Kept:
    """A product that was not issued yet: its sums so far, and the round of the ring that holds its right factor."""

    sums: tuple[Any, ...]
    words: tuple[Any, ...]
    now: Round

    def values(self) -> list[Any]:
        """As values that a loop carries."""
        return [*self.sums, *self.words, *self.now.values()]

    def like(self, values: Sequence[Any]) -> "Kept":
        """The same kind of thing out of a loop's values."""
        cut = len(self.sums) + len(self.words)
        return Kept(tuple(values[: len(self.sums)]), tuple(values[len(self.sums) : cut]), Round(*values[cut:]))


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """Sums of a product that is running; `settle` waits for it, after some values, and gives the tile."""

    settle: Callable[[Sequence[Any]], RegisterTile]


class Overlap:
    """One such loop while its code is emitted."""

    def __init__(self, host: Host, plan: OverlapPlan, *, turns: bool) -> None:
        self._host = host
        self._plan = plan
        self._turns = turns
        self._product: Product | None = None
        self.kept: Kept | None = None
        self.waiting: Kept | None = None

    def keeps(self, op: Any, product: Product, sums: Sequence[Any]) -> bool:
        """Whether `op` is the product to be issued later: then remember it."""
        if op != self._plan.second:
            return False
        self._product = product
        self.kept = Kept(tuple(sums), product.words, self._host.stages.now(self._plan.load))
        return True

    def enter(self, op: Any) -> None:
        """In front of the first product: this warp group's turn."""
        if op == self._plan.first:
            self._turn(mine=True)

    def beside(self, op: Any) -> int:
        """Behind the first product: issue the one that waits; gives how many now run beside the first."""
        if op != self._plan.first:
            return 0
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            self._turn(mine=False)
            return 0
        sums = self._issue(waiting)
        self._turn(mine=False)
        number = self._plan.number
        loop = self._plan.loop
        argument = loop.regions[0].blocks[0].arguments[1 + number]
        layout = self._host.env[argument].layout

        def settle(after: Sequence[Any]) -> RegisterTile:
            # ptxas moves a wait up as far as it can, in front of the very work that it should come behind, but not
            # past a branch: looking once more at a barrier that is complete is one.
            self._host.stages.wait(self._plan.load, waiting.now)
            done = assembly.wgmma_wait(self._host.build, 0, sums, after)
            self._host.stages.release(self._host, self._plan.load, waiting.now)
            return RegisterTile(layout, "f32", tuple(done))

        self._host.env[argument] = Pending(settle)
        return 1

    def finish(self, waiting: Kept, layout: Any) -> RegisterTile:
        """Behind the loop: the last product."""
        sums = self._issue(waiting)
        done = assembly.wgmma_wait(self._host.build, 0, sums)
        self._host.stages.release(self._host, self._plan.load, waiting.now)
        return RegisterTile(layout, "f32", tuple(done))

    def _issue(self, waiting: Kept) -> list[Any]:
        host, product = self._host, self._product
        if product is None:
            message = "no product was kept"
            raise AssertionError(message)
        host.stages.wait(self._plan.load, waiting.now)
        tile = host.stages.at(host, self._plan.load, waiting.now, transposed=product.right.tile.transposed)
        right = Factor(tile, product.right.outer_major)
        again = Product(product.shape, product.element, right, words=waiting.words)
        return issue(host.build, host.team, again, waiting.sums)

    def _turn(self, *, mine: bool) -> None:
        """Two warp groups take turns at issuing products, so that one computes while the other's run."""
        if self._turns:
            turn(self._host.build, self._host.team, mine=mine)


def turn(build: Build, team: Team, *, mine: bool) -> None:
    """Wait for this warp group's turn, or (not `mine`) give the turn to the other one."""
    if team.lanes != 2 * GROUP_LANES:
        return
    group = group_number(build, team)
    if not mine:
        group = build.value("arith.xori", [group, build.word(1)], "i32")
    barrier = build.value("arith.addi", [group, build.word(_FIRST_BARRIER)], "i32")
    what = "sync" if mine else "arrive"
    assembly.assembly(build, f"bar.{what} $0, {team.lanes};", "r", [barrier])


def begin_turns(build: Build, team: Team) -> None:
    """Once, in front of everything: the second warp group gives the first one its turn."""
    if team.lanes == 2 * GROUP_LANES:
        with build.when(build.compare("uge", team.thread, GROUP_LANES)):
            assembly.named_barrier_arrive(build, _FIRST_BARRIER, team.lanes)

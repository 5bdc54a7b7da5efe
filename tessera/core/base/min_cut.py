"""The smallest cut of a network, by Dinic's algorithm.

E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", Soviet Math.
Dokl. 11, 1970: repeat a blocking flow along shortest paths.  Of all smallest cuts, the one whose source side is the
smallest is unique: it is what the source still reaches in the residual network of any greatest flow (L. R. Ford and
D. R. Fulkerson, "Flows in Networks", 1962, theorem I.5.5).  So neither the algorithm nor the order of the edges shows.
"""

from collections import deque


class FlowNetwork:
    """A directed network with capacities that are integers.  Nodes are numbers below `count`."""

    def __init__(self, count: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(count)]  # of each node, the numbers of its edges
        self._ends: list[int] = []
        self._left: list[int] = []  # the residual capacity of edge e; e ^ 1 is its reverse

    def add_edge(self, start: int, end: int, capacity: int) -> None:
        """Add an edge."""
        for a, b, c in ((start, end, capacity), (end, start, 0)):
            self._edges[a].append(len(self._ends))
            self._ends.append(b)
            self._left.append(c)

    def source_side(self, source: int, sink: int) -> frozenset[int]:
        """Saturate the network, and return the nodes on the source's side of the smallest cut nearest to it."""
        while True:
            levels = self._levels(source)
            if levels[sink] < 0:
                return frozenset(node for node, level in enumerate(levels) if level >= 0)
            tried = [0] * len(self._edges)
            while self._augment(source, sink, levels, tried):
                pass

    def _levels(self, source: int) -> list[int]:
        """Return each node's distance from the source in the residual network, -1 where it is not reached."""
        levels = [-1] * len(self._edges)
        levels[source] = 0
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for edge in self._edges[node]:
                end = self._ends[edge]
                if self._left[edge] > 0 and levels[end] < 0:
                    levels[end] = levels[node] + 1
                    waiting.append(end)
        return levels

    def _augment(self, source: int, sink: int, levels: list[int], tried: list[int]) -> bool:
        """Send what one shortest path takes; tried: how many edges of each node are known to lead nowhere."""
        path: list[int] = []
        node = source
        while node != sink:
            if tried[node] < len(self._edges[node]):
                edge = self._edges[node][tried[node]]
                if self._left[edge] > 0 and levels[self._ends[edge]] == levels[node] + 1:
                    path.append(edge)
                    node = self._ends[edge]
                else:
                    tried[node] += 1
            elif path:
                node = self._ends[path.pop() ^ 1]
                tried[node] += 1
            else:
                return False
        amount = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= amount
            self._left[edge ^ 1] += amount
        return True

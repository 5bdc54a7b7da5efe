"""Put the graphs that calls are defined by in their place: adjoints of their own are used up by now.

before: %y = call(%x) softplus {%e = map(%x) exp; %r = map(%e) log(1 + e)}
after:  %e = map(%x) exp; %y = map(%e) log(1 + e)
"""

from dataclasses import replace
from typing import Final

from tessera.core.graph.graph import Graph, Routine
from tessera.core.graph.rewrite import Rewriter, with_bodies

RULE: Final = "expand-calls"


def expand_calls(graph: Graph) -> Graph:
    """Return the graph in which no call has a definition, those inside of definitions and bodies included."""
    while any(_definition(node.body) is not None for node in graph.nodes):
        rewriter = Rewriter(graph, RULE)
        for node in graph.nodes:
            definition = _definition(node.body)
            if definition is None:
                rewriter.keep(node)
                continue
            origin = rewriter.origin(node)  # the definition's nodes name the operator themselves
            with rewriter.builder.within(replace(origin, composite=origin.composite[:-1]), node.span):
                made = rewriter.builder.inline(definition, rewriter.operands(node))
                for old, new in zip(node.results, made, strict=True):
                    rewriter.stand_in(old, new)
        graph = rewriter.finish()
    return with_bodies(graph, expand_calls)


def _definition(body: object) -> Graph | None:
    return body.definition if isinstance(body, Routine) else None

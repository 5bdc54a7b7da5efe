// Graphviz as WebAssembly: the program of a worker, which lays out graphs where Python finds no `dot`, so that the page
// never waits.  It takes graphs in the DOT language and gives graphviz's JSON.  Licence: tessera/viz/static/THIRD-PARTY.txt.
import { instance } from "@viz-js/viz";

const ready = instance();

onmessage = ({ data }: MessageEvent<{ number: number; given: string[] }>): void => {
  const answer = (made: unknown): void => postMessage({ number: data.number, made });
  // A page whose policy forbids WebAssembly has no graphviz.
  ready.then((graphviz) => answer(data.given.map((source) => graphviz.renderJSON(source))), () => answer(null));
};

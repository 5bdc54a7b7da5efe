// Builds src/core and each of src/views into one script a view, in tessera/viz/static: see docs/viz.md.
// A view's script finds the core at run time, so that a page with several views carries it once.
import { build } from "esbuild";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "tessera", "viz", "static");

const shared = {
  name: "shared core",
  setup(builder) {
    builder.onResolve({ filter: /^(\.\.\/)+core$/ }, () => ({ path: "core", namespace: "shared" }));
    builder.onLoad({ filter: /.*/, namespace: "shared" }, () => ({
      contents: "module.exports = globalThis.__tessera_v1.lib;",
      loader: "js",
    }));
  },
};

const css = {
  name: "minified css as text",
  setup(builder) {
    builder.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const made = await build({ entryPoints: [path], minify: true, write: false, loader: { ".css": "css" } });
      return { contents: made.outputFiles[0].text, loader: "text" };
    });
  },
};

// Large libraries, each a script of its own that views load when they need it: see `load` in src/core/boot.ts.
const lazy = readdirSync(join(here, "src", "lazy")).filter((name) => name.endsWith(".ts"));
const views = readdirSync(join(here, "src", "views")).filter((name) => name.endsWith(".ts"));
const common = { bundle: true, minify: true, format: "iife", target: "es2022", charset: "utf8", legalComments: "inline", logLevel: "warning" };
await build({ ...common, entryPoints: [join(here, "src", "core", "boot.ts")], outfile: join(out, "core.js"), plugins: [css] });
await Promise.all(
  [...views.map((name) => ["views", name]), ...lazy.map((name) => ["lazy", name])].map(([folder, name]) =>
    build({
      ...common,
      entryPoints: [join(here, "src", folder, name)],
      outfile: join(out, name.replace(/\.ts$/, ".js")),
      plugins: [shared, css],
    }),
  ),
);

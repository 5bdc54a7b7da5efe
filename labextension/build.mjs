// Builds src into labextension/prebuilt, as JupyterLab and Notebook load it: a module federation container.
//
// Such a container is an object with `init(scope)` and `get(module)`; the packages that the application shares (CodeMirror,
// JupyterLab's own) come from the scope.  It is written out below, so that esbuild does, and nothing is bundled but src.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "prebuilt");
const { name, version, description, license } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const shared = [
  "@codemirror/language", "@codemirror/state", "@codemirror/view",
  "@jupyterlab/codemirror", "@jupyterlab/completer", "@jupyterlab/notebook",
];

const made = await build({
  entryPoints: [join(here, "src", "index.ts")],
  bundle: true, minify: true, write: false, format: "cjs", target: "es2022", charset: "utf8", logLevel: "warning",
  external: shared, legalComments: "inline",
});

// Of several versions of a package the newest, unless one is in use: webpack's rule for singletons.
const container = `"use strict";
(() => {
  let scope;
  const newer = (a, b) => a.localeCompare(b, "en", { numeric: true }) > 0;
  const load = async (name) => {
    const versions = scope?.[name] ?? {};
    const chosen = Object.keys(versions).reduce((a, b) => (!versions[a]?.loaded && (!a || newer(b, a)) ? b : a), "");
    return chosen ? (await versions[chosen].get())() : {};
  };
  (window._JUPYTERLAB ??= {})[${JSON.stringify(name)}] = {
    init: (shared) => void (scope = shared),
    get: async () => {
      const names = ${JSON.stringify(shared)};
      const loaded = await Promise.all(names.map(load));
      const module = { exports: {} };
      ((module, exports, require) => {
${made.outputFiles[0].text.trim()}
      })(module, module.exports, (name) => loaded[names.indexOf(name)]);
      return () => module.exports;
    },
  };
})();
`;

const entry = `remoteEntry.${createHash("sha256").update(container).digest("hex").slice(0, 12)}.js`;
const json = (value) => JSON.stringify(value, null, 2) + "\n";
rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "static"), { recursive: true });
writeFileSync(join(out, "static", entry), container);
writeFileSync(join(out, "package.json"), json({
  name, version, description, license,
  jupyterlab: { extension: true, _build: { load: `static/${entry}`, extension: "./extension" } },
}));
writeFileSync(join(out, "install.json"), json({
  packageManager: "python", packageName: "tessera", uninstallInstructions: "pip uninstall tessera",
}));

// Runs tests on Python 3.14 in Pyodide: node run.mjs PROJECT CACHE ARGUMENTS…
// PROJECT is the folder of the project; CACHE has `node_modules` and the Python packages in `packages`.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [project, cache, ...args] = process.argv.slice(2);
const require = createRequire(`${cache}/package.json`);
const { loadPyodide } = await import(pathToFileURL(require.resolve("pyodide/pyodide.mjs")).href);
const pyodide = await loadPyodide();
for (const [at, root] of [["/project", project], ["/packages", `${cache}/packages`]]) {
  pyodide.FS.mkdirTree(at);
  pyodide.FS.mount(pyodide.FS.filesystems.NODEFS, { root }, at);
}
pyodide.globals.set("arguments", pyodide.toPy(args));
process.exitCode = pyodide.runPython(`
import os, sys
os.chdir("/project")
sys.dont_write_bytecode = True
sys.path[:0] = ["/project/src", "/project", "/packages"]
from tests.pyodide import python
python.run_tests(list(arguments))
`);

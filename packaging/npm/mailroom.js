#!/usr/bin/env node
// Starts the program that npm has installed for this system, with the arguments, the streams and the exit status of this
// process. `mailroom connect` writes the program's own path into hosts, so that hooks do not start Node.js.
"use strict";
const { spawn } = require("node:child_process");
const os = require("node:os");

const name = `${require("./package.json").name}-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/mailroom${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`mailroom: the package ${name} is missing.
Install again without --omit=optional, or build from source if there is no package for this system.`);
  process.exit(69);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
process.on("SIGTERM", () => child.kill("SIGTERM"));
for (const signal of ["SIGINT", "SIGHUP"]) {
  process.on(signal, () => {}); // the terminal sends it to the program as well, which ends at the second one
}
child.on("error", (err) => {
  console.error(`mailroom: ${program} cannot be started: ${err.message}`);
  process.exit(69);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));

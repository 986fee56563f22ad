#!/usr/bin/env node
// Starts the program that npm has installed for this system, with the arguments, the streams and the exit status of this
// process. `mailroom connect` writes the program's own path into hosts, so that hooks do not start Node.js.
"use strict";
const { spawn } = require("node:child_process");
const os = require("node:os");
const tty = require("node:tty");

const name = `${require("./package.json").name}-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/mailroom${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`mailroom: the package ${name} is missing.
Install it together with this package, or build from source if there is no package for this system.`);
  process.exit(69);
}
let child;
const terminal = [0, 1, 2].some((fd) => tty.isatty(fd));
for (const signal of process.platform === "win32" ? ["SIGINT"] : ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => {
    // A terminal sends the others to the program as well, and the program ends at the second SIGINT.
    if (signal === "SIGTERM" || !terminal) child.kill(signal);
  });
}
// On Linux, the program ends with this process, even if this process is killed.
const env = { ...process.env, MAILROOM_LAUNCHER: String(process.pid) };
child = spawn(program, process.argv.slice(2), { stdio: "inherit", env });
child.on("error", (err) => {
  console.error(`mailroom: ${program} cannot be started: ${err.message}`);
  process.exit(69);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));

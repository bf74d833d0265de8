// Arguments, environment and standard streams, as the shim has them.

import { say, SUM_START, hex, sumOn } from "./text";

export function arguments_(): void {
  for (let i = 1; i < process.argv.length; i++) {
    const word = process.argv[i];
    const length = String.UTF8.byteLength(word);
    process.stdout.write("argument " + i.toString() + ": " + length.toString() + " bytes, " + word + "\n");
  }
  const variables: string[] = [];
  const names = process.env.keys();
  for (let i = 0; i < names.length; i++) variables.push(names[i] + "=" + process.env.get(names[i]));
  variables.sort();
  for (let i = 0; i < variables.length; i++) process.stdout.write("variable " + variables[i] + "\n");
}

export function standardInput(): void {
  const buffer = new ArrayBuffer(10007);
  const bytes = Uint8Array.wrap(buffer);
  let sum = SUM_START;
  let length = 0;
  for (;;) {
    const count = process.stdin.read(buffer);
    if (count <= 0) break;
    sum = sumOn(sum, bytes, count);
    length += count;
  }
  say("standard input", length.toString() + " bytes, sum " + hex(sum));
}

export function output(lines: i32): void {
  for (let line = 1; line <= lines; line++) {
    console.log("line " + line.toString());
    // `console.error` of the shim writes to standard output.
    if (line % 10 == 0) process.stderr.write("error line " + line.toString() + "\n");
  }
}

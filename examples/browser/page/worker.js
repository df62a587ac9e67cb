// Runs the Go program, which takes the messages from then on. In a worker the page never waits for it.
"use strict";
importScripts("wasm_exec.js", "naive.js");

const failed = (error) => postMessage({broken: String(error.stack || error)});

// What Go prints before it ends, as of a panic, is why it ended.
let printed = "";
const decoder = new TextDecoder();
globalThis.fs.writeSync = (_, bytes) => {
  printed = (printed + decoder.decode(bytes, {stream: true})).slice(-2000);
  return bytes.length;
};

const go = new Go();
WebAssembly.instantiateStreaming(fetch("batchgemm.wasm"), go.importObject)
  .then(({instance}) => go.run(instance))
  .then(() => failed(`the program ended: ${printed}`))
  .catch(failed);

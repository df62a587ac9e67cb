// Gives programs that node runs WebGPU, as a browser would: Dawn's, from npm's package "webgpu". It is
// loaded in front of Go's own loader; scripts/node.sh says how. DAWN_FLAGS is a list of Dawn's options,
// such as "adapter=llvmpipe enable-dawn-features=dump_shaders".
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const path = createRequire(import.meta.url).resolve("webgpu"); // NODE_PATH counts, as it does not for import
const { create, globals } = await import(pathToFileURL(path));
Object.assign(globalThis, globals);
const gpu = create((process.env.DAWN_FLAGS ?? "").split(" ").filter(Boolean));
globalThis.navigator ??= new (class Navigator {})(); // node has one from version 21 on
Object.defineProperty(Object.getPrototypeOf(globalThis.navigator), "gpu", { value: gpu, configurable: true });

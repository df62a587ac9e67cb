// The naive kernel that ours is compared with: a thread for each element of C, which loops over K, and one
// dispatch for the whole batch, as large as its largest problem asks for.
"use strict";

const naiveShader = `
struct Problem { m: u32, n: u32, k: u32, a: u32, aRow: u32, aCol: u32, b: u32, bRow: u32, bCol: u32, c: u32, ldc: u32, alpha: f32, beta: f32 }
@group(0) @binding(0) var<storage, read> problems: array<Problem>;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let p = problems[id.z];
  if (id.y >= p.m || id.x >= p.n) { return; }
  var sum = 0.0;
  for (var k = 0u; k < p.k; k++) {
    sum += a[p.a + id.y * p.aRow + k * p.aCol] * b[p.b + k * p.bRow + id.x * p.bCol];
  }
  let at = p.c + id.y * p.ldc + id.x;
  sum *= p.alpha;
  if (p.beta != 0.0) { sum += p.beta * c[at]; }
  c[at] = sum;
}`;

// makeNaive takes the words of problems and the operands as bytes, and the size of the largest C.
globalThis.makeNaive = async (problems, rows, cols, a, b, c) => {
  const adapter = await navigator.gpu.requestAdapter({powerPreference: "high-performance"});
  if (!adapter) throw new Error("the browser has no adapter any more");
  const {maxBufferSize, maxStorageBufferBindingSize} = adapter.limits;
  const device = await adapter.requestDevice({requiredLimits: {maxBufferSize, maxStorageBufferBindingSize}});

  // checked does something, and throws what the browser finds wrong with it.
  const checked = async (work) => {
    for (const kind of ["validation", "out-of-memory", "internal"]) device.pushErrorScope(kind);
    const result = await work();
    const errors = await Promise.all([device.popErrorScope(), device.popErrorScope(), device.popErrorScope()]);
    for (const error of errors) if (error) throw new Error(error.message || "out of memory");
    return result;
  };

  const {STORAGE, COPY_SRC, COPY_DST, MAP_READ} = GPUBufferUsage;
  const made = await checked(async () => {
    const buffers = [problems, a, b, c].map((bytes) => {
      const buffer = device.createBuffer({size: Math.max(bytes.length, 4), usage: STORAGE | COPY_SRC | COPY_DST});
      device.queue.writeBuffer(buffer, 0, bytes);
      return buffer;
    });
    const module = device.createShaderModule({code: naiveShader});
    const pipeline = await device.createComputePipelineAsync({layout: "auto", compute: {module, entryPoint: "main"}});
    const entries = buffers.map((buffer, binding) => ({binding, resource: {buffer}}));
    return {buffers, pipeline, group: device.createBindGroup({layout: pipeline.getBindGroupLayout(0), entries})};
  });

  const record = (runs) => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(made.pipeline);
    pass.setBindGroup(0, made.group);
    for (let i = 0; i < runs; i++) pass.dispatchWorkgroups(Math.ceil(cols / 16), Math.ceil(rows / 16), problems.length / 52);
    pass.end();
    return encoder;
  };
  return {
    once: () => checked(async () => {
      const encoder = record(1), result = device.createBuffer({size: c.length, usage: MAP_READ | COPY_DST});
      encoder.copyBufferToBuffer(made.buffers[3], 0, result, 0, c.length);
      device.queue.submit([encoder.finish()]);
      await result.mapAsync(GPUMapMode.READ);
      const bytes = new Uint8Array(result.getMappedRange().slice(0));
      result.destroy();
      return bytes;
    }),
    run: async (runs) => {
      device.queue.submit([record(runs).finish()]);
      await device.queue.onSubmittedWorkDone();
    },
    close: () => device.destroy(),
  };
};

// What wgmma_boxes.cuh needs of CUDA besides wgmma_cuda.h: copies of boxes of a matrix by its map (tensor
// memory access), and products of 256 columns.
#pragma once

#include "wgmma_cuda.h"

// elected is true for one lane of the warp, which the compiler knows to be one: it would write a loop over
// lanes for a lane of a number.
BG_DEVICE bool elected() {
  uint32_t x;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(x));
  return x != 0;
}

// ofEachLane is x, of which the compiler knows nothing, not even that all lanes have the same.
BG_DEVICE uint32_t ofEachLane(uint32_t x) {
  uint32_t self;
  asm volatile("mov.u32 %0, %%lanemask_eq;\n" : "=r"(self));
  return x + __popc(self) - 1;
}

// ofFour is x of a member of the lane's four lanes.
BG_DEVICE uint32_t ofFour(uint32_t x, uint32_t member) { return __shfl_sync(0xffffffff, x, member, 4); }

// matrixAt is the descriptor of a matrix of which the low word is known. The high one is the same for all:
// the compiler keeps a word for each, where it would add numbers of two.
BG_DEVICE uint64_t matrixAt(uint32_t low) { return matrixB(0) >> 32 << 32 | low; }

// arriveExpecting arrives at a phase that ends when so many bytes have been copied besides.
BG_DEVICE void arriveExpecting(SharedAddress at, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(at), "r"(bytes) : "memory");
}

// A map describes a matrix in memory, rows of numbers along K, and the box of it that a copy brings. Its
// words are the device's own business (PTX ISA, "Tensor-map"). It is drafted in shared memory, from zeros,
// and stored to global memory. Addresses are multiples of 128 bytes.
constexpr uint32_t kMapWords = 32, kMapBytes = 4 * kMapWords;

// What strides of maps are counted in: nvcc takes bytes from 12.5 on.
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1205
constexpr uint64_t kStrideBytes = 16;
#else
constexpr uint64_t kStrideBytes = 1;
#endif

#define BG_MAP(field, type) "tensormap.replace.tile." field ".shared::cta.b1024." type " [%0]"
#define BG_SET_MAP(field, type, place, c, value) \
  asm volatile(BG_MAP(field, type) place ", %1;\n" ::"r"(draft), c(value) : "memory")
#define BG_CHOOSE_MAP(field, value) \
  asm volatile(BG_MAP(field, "b32") ", " value ";\n" ::"r"(draft) : "memory")

// draftMap begins a draft, by all lanes of a warp: boxes of kBoxRows rows of kBytes, with zeros where the
// matrix ends. Copies swizzle rows of 128 bytes, and leave others as they lie.
template <uint32_t kBoxRows, class Number, uint32_t kBytes = 128>
BG_DEVICE void draftMap(SharedAddress draft) {
  asm volatile("st.shared.u32 [%0], %1;\n" ::"r"(draft + threadId() % 32 * 4), "r"(0) : "memory");
  __syncwarp();
  if (elected()) {
    BG_CHOOSE_MAP("rank", "1");  // less one
    BG_SET_MAP("box_dim", "b32", ", 0", "r", static_cast<uint32_t>(kBytes / sizeof(Number)));
    BG_SET_MAP("box_dim", "b32", ", 1", "r", kBoxRows);
    BG_SET_MAP("element_stride", "b32", ", 0", "r", 1);
    BG_SET_MAP("element_stride", "b32", ", 1", "r", 1);
    if (sizeof(Number) == 8) BG_CHOOSE_MAP("elemtype", "4");
    else if (sizeof(Number) == 4) BG_CHOOSE_MAP("elemtype", "2");  // bits, whatever they mean
    else if (sizeof(Number) == 2) BG_CHOOSE_MAP("elemtype", "1");
    else BG_CHOOSE_MAP("elemtype", "0");
    BG_CHOOSE_MAP("interleave_layout", "0");
    if (kBytes == 128) BG_CHOOSE_MAP("swizzle_mode", "3");
    else BG_CHOOSE_MAP("swizzle_mode", "0");
    BG_CHOOSE_MAP("fill_mode", "0");
  }
  __syncwarp();
}

// storeMap completes a draft, by all lanes of the warp that began it: `rows` rows of `depth` numbers, ld
// apart, multiples of 16 bytes as the address is. No copy by what was there may be under way.
template <class Number>
BG_DEVICE void storeMap(uint32_t* map, SharedAddress draft, const Number* at, uint32_t depth, uint32_t rows,
    uint32_t ld) {
  if (elected()) {
    BG_SET_MAP("global_address", "b64", "", "l", __cvta_generic_to_global(at));
    BG_SET_MAP("global_dim", "b32", ", 0", "r", depth);
    BG_SET_MAP("global_dim", "b32", ", 1", "r", rows);
    BG_SET_MAP("global_stride", "b64", ", 0", "l", ld * sizeof(Number) / kStrideBytes);
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
               "[%0], [%1], 128;\n" ::"l"(__cvta_generic_to_global(map)), "r"(draft)
               : "memory");
}

// acquireMap is for the thread that copies by a map.
BG_DEVICE void acquireMap(const uint32_t* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;\n" ::"l"(map) : "memory");
}

// copyBox starts the copy of a box, which begins with number k of a row, and counts its bytes at a phase.
BG_DEVICE void copyBox(SharedAddress to, const uint32_t* map, uint32_t k, uint32_t row, SharedAddress full) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(to), "l"(map), "r"(k), "r"(row), "r"(full)
               : "memory");
}

// storeBox starts the copy of a box of C from shared memory, that part of it which C has. commitBoxes ends a
// group of such, and waitBoxesRead waits until all but the thread's latest groups have left shared memory.
BG_DEVICE void storeBox(const uint32_t* map, uint32_t col, uint32_t row, SharedAddress from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n"
               ::"l"(map), "r"(col), "r"(row), "r"(from)
               : "memory");
}
BG_DEVICE void commitBoxes() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }
template <int kGroups>
BG_DEVICE void waitBoxesRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(kGroups) : "memory");
}

// Products of 256 columns, as wgmma_cuda.h has those of 128.
#define BG_SUMS_128 "{" \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49," \
  "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73," \
  "%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97," \
  "%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116," \
  "%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}"
#define BG_OUT_128(c) \
  c(d[0]), c(d[1]), c(d[2]), c(d[3]), c(d[4]), c(d[5]), c(d[6]), c(d[7]), c(d[8]), c(d[9]), c(d[10]), \
  c(d[11]), c(d[12]), c(d[13]), c(d[14]), c(d[15]), c(d[16]), c(d[17]), c(d[18]), c(d[19]), c(d[20]), \
  c(d[21]), c(d[22]), c(d[23]), c(d[24]), c(d[25]), c(d[26]), c(d[27]), c(d[28]), c(d[29]), c(d[30]), \
  c(d[31]), c(d[32]), c(d[33]), c(d[34]), c(d[35]), c(d[36]), c(d[37]), c(d[38]), c(d[39]), c(d[40]), \
  c(d[41]), c(d[42]), c(d[43]), c(d[44]), c(d[45]), c(d[46]), c(d[47]), c(d[48]), c(d[49]), c(d[50]), \
  c(d[51]), c(d[52]), c(d[53]), c(d[54]), c(d[55]), c(d[56]), c(d[57]), c(d[58]), c(d[59]), c(d[60]), \
  c(d[61]), c(d[62]), c(d[63]), c(d[64]), c(d[65]), c(d[66]), c(d[67]), c(d[68]), c(d[69]), c(d[70]), \
  c(d[71]), c(d[72]), c(d[73]), c(d[74]), c(d[75]), c(d[76]), c(d[77]), c(d[78]), c(d[79]), c(d[80]), \
  c(d[81]), c(d[82]), c(d[83]), c(d[84]), c(d[85]), c(d[86]), c(d[87]), c(d[88]), c(d[89]), c(d[90]), \
  c(d[91]), c(d[92]), c(d[93]), c(d[94]), c(d[95]), c(d[96]), c(d[97]), c(d[98]), c(d[99]), c(d[100]), \
  c(d[101]), c(d[102]), c(d[103]), c(d[104]), c(d[105]), c(d[106]), c(d[107]), c(d[108]), c(d[109]), \
  c(d[110]), c(d[111]), c(d[112]), c(d[113]), c(d[114]), c(d[115]), c(d[116]), c(d[117]), c(d[118]), \
  c(d[119]), c(d[120]), c(d[121]), c(d[122]), c(d[123]), c(d[124]), c(d[125]), c(d[126]), c(d[127])
#define BG_TWO_128 "%128, %129, p, 1, 1, %130, %131"
template <bool kMNMajorA, bool kMNMajorB>
BG_DEVICE void productOf(BF16, float (&d)[128], uint64_t a, uint64_t b) {
  BG_SHARED_PRODUCT(128, 256, bf16);
}
template <bool kMNMajorA, bool kMNMajorB>
BG_DEVICE void productOf(F16, float (&d)[128], uint64_t a, uint64_t b) {
  BG_SHARED_PRODUCT(128, 256, f16);
}
#define BG_BYTES_128 "%128, %129"
#define BG_MORE_128 "%130"
template <bool kMNMajorA, bool kMNMajorB>
BG_DEVICE void productOf(Int8, int32_t (&d)[128], uint64_t a, uint64_t b) {
  BG_BYTE_PRODUCT(128, 256, ".s32.s8.s8", "+r", 1, "");
}

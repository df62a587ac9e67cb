// Fibers: the threads of an emulated GPU, which run until they wait, so that their
// order is ours to choose. Include this before all else.
//
// Sanitizers must know of fibers: BG_SHIM_SANITIZER says which one there is.
#pragma once

#undef _FORTIFY_SOURCE  // its longjmp does not go to other stacks

#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <ucontext.h>

#define SANITIZER_ADDRESS 1
#define SANITIZER_THREAD 2
#ifndef BG_SHIM_SANITIZER
#define BG_SHIM_SANITIZER 0
#endif
#if BG_SHIM_SANITIZER == SANITIZER_ADDRESS
#include <sanitizer/common_interface_defs.h>
#elif BG_SHIM_SANITIZER == SANITIZER_THREAD
#include <sanitizer/tsan_interface.h>
#endif

constexpr size_t kStack = 256 << 10;  // bytes; sanitizers make frames large

// Place is where a fiber, or the scheduler, goes on. Without a sanitizer it is a
// jmp_buf, because swapcontext calls the system each time.
struct Place {
  ucontext_t context;
  jmp_buf jump;
  void* sanitizer = nullptr;  // its handle of this fiber
  const void* stack = nullptr;
  size_t stackBytes = 0;
  bool started = true;  // as a scheduler is

  // prepare makes the place the beginning of a fiber.
  void prepare(void (*entry)()) {
    if (stack == nullptr) {
      stack = malloc(kStack);
      stackBytes = kStack;
#if BG_SHIM_SANITIZER == SANITIZER_THREAD
      sanitizer = __tsan_create_fiber(0);
#endif
    }
    getcontext(&context);
    context.uc_stack.ss_sp = const_cast<void*>(stack);
    context.uc_stack.ss_size = kStack;
    makecontext(&context, entry, 0);
    started = false;
  }
};

// go leaves a place for another and returns when something goes to it again.
inline void go(Place& from, Place& to) {
  [[maybe_unused]] const bool started = to.started;
  to.started = true;
#if BG_SHIM_SANITIZER == SANITIZER_ADDRESS
  __sanitizer_start_switch_fiber(&from.sanitizer, to.stack, to.stackBytes);
  swapcontext(&from.context, &to.context);
  __sanitizer_finish_switch_fiber(from.sanitizer, nullptr, nullptr);
#elif BG_SHIM_SANITIZER == SANITIZER_THREAD
  __tsan_switch_to_fiber(to.sanitizer, __tsan_switch_to_fiber_no_sync);
  swapcontext(&from.context, &to.context);
#else
  if (_setjmp(from.jump) != 0) return;
  if (started) _longjmp(to.jump, 1);
  setcontext(&to.context);
#endif
}

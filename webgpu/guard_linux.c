//go:build cgo && !nowebgpu && amd64

// A frame at which panics of the library end. They unwind the stack as C++
// exceptions do (Itanium C++ ABI, "Exception Handling"), through frames that
// rustc 1.71 made for it, and end the process if no frame takes them. This one
// takes all, as Rust's catch_unwind does.
#include "shim.h"

#include <stddef.h>
#include <unwind.h>

// gpu_catch calls a function, and returns the exception that ended it, or NULL.
struct _Unwind_Exception *gpu_catch(void (*function)(void *), void *argument);
void gpu_caught(void);

__asm__(
	"	.pushsection .text\n"
	"	.hidden gpu_catch, gpu_caught\n"
	"	.globl gpu_catch, gpu_caught\n"
	"	.type gpu_catch, @function\n"
	"gpu_catch:\n"
	"	.cfi_startproc\n"
	"	.cfi_personality 0x1b, gpu_personality\n" // relative, 32 bits
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	movq %rdi, %rax\n"
	"	movq %rsi, %rdi\n"
	"	callq *%rax\n"
	"	xorl %eax, %eax\n"
	"gpu_caught:\n" // after an exception, which is in rax; else all is as after the call
	"	popq %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size gpu_catch, .-gpu_catch\n"
	"	.popsection\n");

// gpu_personality tells the unwinder what that frame does with an exception.
__attribute__((visibility("hidden"), used)) _Unwind_Reason_Code
gpu_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                  struct _Unwind_Exception *exception, struct _Unwind_Context *context) {
	enum { RAX = 0 };
	(void)version, (void)class;
	if (actions & _UA_SEARCH_PHASE)
		return _URC_HANDLER_FOUND;
	if (!(actions & _UA_HANDLER_FRAME))
		return _URC_CONTINUE_UNWIND; // the thread is being ended
	_Unwind_SetGR(context, RAX, (_Unwind_Word)exception);
	_Unwind_SetIP(context, (_Unwind_Ptr)gpu_caught);
	return _URC_INSTALL_CONTEXT;
}

// std::panicking::try::cleanup of the library, which is what catch_unwind does with
// an exception: it frees it, and takes from this thread the mark of one that panics,
// under which the library's objects would not be freed. It returns a Box<dyn Any>,
// which is not. Another build of the library has another name for it; then the mark
// stays.
typedef struct {
	void *data, *vtable;
} box;

__attribute__((weak)) box cleanup(struct _Unwind_Exception *) __asm__(
	"_ZN3std9panicking3try7cleanup17hc98f0df44d621f22E");

int guard(void (*function)(void *), void *argument) {
	struct _Unwind_Exception *exception = gpu_catch(function, argument);
	if (exception && cleanup)
		cleanup(exception);
	return exception != NULL;
}

// What _eager.c uses of Python, and how it reads tensors.

#define Py_LIMITED_API 0x030A0000 // one build for Python from 3.10 on
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>

enum { ALIGN = 16 }; // bytes, of addresses
enum { DIMS = 4 };   // of a tensor, at most
enum { CPU = -1, ELSEWHERE = -2 };
enum { FLOAT32 = 1, FLOAT16 = 3 }; // of torch.types, from 1 on

// What setup() gives, by name.
#define OBJECTS(OF) \
	OF(Tensor) OF(Parameter) OF(types) OF(watchers) OF(function_modes) OF(default_device) OF(forward_mode) \
		OF(wrapped) OF(grad_enabled) OF(current_stream) \
	OF(capturing) OF(empty) OF(apply) OF(run) OF(join) OF(of_torch) OF(derivatives) OF(gradients) \
		OF(bias_gradient) OF(exchange) OF(aoti) OF(check)
#define MEMBER(name) PyObject *name;
static struct { OBJECTS(MEMBER) } torch;

// Names of what tensors have.
#define NAMES(OF) OF(shape) OF(stride) OF(dtype) OF(data_ptr) OF(is_cuda) OF(is_cpu) OF(get_device) \
	OF(is_neg) OF(requires_grad) OF(ndim) OF(fill_) \
	OF(CURRENT_DEVICE) OF(_current_level) OF(saved_tensors) OF(needs_input_grad) \
		OF(save_for_backward) OF(activation)
static struct { NAMES(MEMBER) PyObject *none; } name; // none: no activation

// What DLPack has for C, of its major version 1: a view is its DLTensor, an exchange the beginning of its
// DLPackExchangeAPI.
struct view {
	char *data;
	int32_t device_type, device, dims;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *stride;
	uint64_t offset; // bytes
};
struct exchange {
	uint32_t major, minor;
	const struct exchange *previous;
	void (*allocate)(void), (*from_object)(void), (*to_object)(void);
	int (*view)(void *object, struct view *); // of a tensor that somebody else holds; 0, or an exception
};
static int (*view)(void *object, struct view *); // NULL: torch is older than that

// What a program depends on of a tensor. All bytes count: there are none between members.
struct operand {
	int64_t shape[DIMS], stride[DIMS];
	int32_t device;
	uint8_t dims, type, at, none; // at: address modulo ALIGN
};

// Results of calls. Each takes over the reference, which is NULL after an exception.

static int truth(PyObject *o) {
	int is = o ? PyObject_IsTrue(o) : -1;
	Py_XDECREF(o);
	return is;
}

static int64_t integer(PyObject *o) {
	int64_t n = o ? PyLong_AsLongLong(o) : -1;
	Py_XDECREF(o);
	return n;
}

// integers copies up to DIMS of a tuple, and returns how many there are: -1 where they are more, or none.
static int integers(PyObject *tuple, int64_t *to) {
	Py_ssize_t n = tuple && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
	if (n > DIMS) n = -1;
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *o = PyTuple_GetItem(tuple, i);
		// others are numbers that torch knows by name alone
		to[i] = PyLong_CheckExact(o) ? PyLong_AsLongLong(o) : -1;
		if (to[i] < 0) n = -1;
	}
	Py_XDECREF(tuple);
	return (int)n;
}

// Tensors. Functions that return whether they could read something may leave an exception where not.

// device_of returns the number of a GPU, or CPU or ELSEWHERE.
static int device_of(PyObject *t) {
	int cuda = truth(PyObject_GetAttr(t, name.is_cuda));
	if (cuda == 0 && truth(PyObject_GetAttr(t, name.is_cpu)) == 1) return CPU;
	int64_t index = cuda == 1 ? integer(PyObject_CallMethodObjArgs(t, name.get_device, NULL)) : -1;
	return index < 0 ? ELSEWHERE : (int)index;
}

// type_of returns which of the types it is, from 1 on, or 0.
static uint8_t type_of(PyObject *dtype) {
	for (Py_ssize_t i = PyTuple_Size(torch.types); i > 0; i--)
		if (PyTuple_GetItem(torch.types, i - 1) == dtype) return (uint8_t)i;
	return 0;
}

// address_of returns where a view begins.
static uint64_t address_of(const struct view *v) { return (uint64_t)(uintptr_t)v->data + v->offset; }

// device_in is device_of for a view.
static int device_in(const struct view *v) {
	enum { ON_CPU = 1, CUDA = 2, ROCM = 10 };
	return v->device_type == ON_CPU ? CPU :
		v->device_type == CUDA || v->device_type == ROCM ? v->device : ELSEWHERE;
}

// read_view reads a tensor of DLPack's.
static int read_view(const struct view *v, struct operand *o, uint64_t *address) {
	enum { INT, UINT, FLOAT, BFLOAT = 4, E4M3 = 10 };
	// those of torch.types
	static const uint8_t types[][2] = {{FLOAT, 32}, {BFLOAT, 16}, {FLOAT, 16}, {INT, 32}, {E4M3, 8},
		{INT, 8}, {UINT, 8}};
	if (v->dims > DIMS || v->lanes != 1) return 0;
	for (uint8_t i = 0; i < sizeof types / sizeof *types; i++)
		if (v->code == types[i][0] && v->bits == types[i][1]) o->type = i + 1;
	o->device = device_in(v);
	o->dims = (uint8_t)v->dims;
	memcpy(o->shape, v->shape, (size_t)v->dims * sizeof *v->shape);
	memcpy(o->stride, v->stride, (size_t)v->dims * sizeof *v->stride);
	*address = address_of(v);
	return o->type && o->device != ELSEWHERE;
}

static int read_attributes(PyObject *t, struct operand *o, uint64_t *address) {
	PyObject *dtype = PyObject_GetAttr(t, name.dtype);
	o->type = dtype ? type_of(dtype) : 0;
	Py_XDECREF(dtype);
	o->device = o->type ? device_of(t) : ELSEWHERE;
	if (o->device == ELSEWHERE) return 0;
	int dims = integers(PyObject_GetAttr(t, name.shape), o->shape);
	if (dims < 0 || integers(PyObject_CallMethodObjArgs(t, name.stride, NULL), o->stride) != dims) return 0;
	o->dims = (uint8_t)dims;
	*address = (uint64_t)integer(PyObject_CallMethodObjArgs(t, name.data_ptr, NULL));
	return !PyErr_Occurred();
}

// refused forgets why there is no view, unless that is to end the program: older torch has none of e4m3.
static int refused(void) {
	if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return 0;
	PyErr_Clear();
	return 1;
}

static int read_operand(PyObject *t, struct operand *o, uint64_t *address) {
	struct view v;
	int read = view && !view(t, &v) ? read_view(&v, o, address) : (!view || refused()) &&
		read_attributes(t, o, address);
	o->at = *address % ALIGN;
	return read;
}

static int read_address(PyObject *t, uint64_t *address) {
	struct view v;
	if (view && view(t, &v)) return 0;
	*address = view ? address_of(&v) : (uint64_t)integer(PyObject_CallMethodObjArgs(t, name.data_ptr, NULL));
	return view || !PyErr_Occurred();
}

// turn makes an operand what it is with its last two dimensions swapped.
static void turn(struct operand *o) {
	int64_t *of[] = {o->shape + o->dims, o->stride + o->dims};
	for (int i = 0; i < 2 && o->dims > 1; i++) {
		int64_t last = of[i][-1];
		of[i][-1] = of[i][-2];
		of[i][-2] = last;
	}
}

// elements returns how many an operand has, or -1 where they do not lie one after the other.
static int64_t elements(const struct operand *o) {
	int64_t n = 1;
	int dense = 1;
	for (int i = o->dims - 1; i >= 0; i--) {
		if (o->shape[i] > 1 && o->stride[i] != n) dense = 0;
		n *= o->shape[i];
	}
	return dense || n == 0 ? n : -1;
}

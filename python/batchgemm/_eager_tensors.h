// What _eager.c uses of Python, and how it reads tensors.

#define Py_LIMITED_API 0x030A0000 // one build for Python from 3.10 on
#include <Python.h>
#include <string.h>

enum { ALIGN = 16 }; // bytes, of addresses
enum { CPU = -1, ELSEWHERE = -2 };

// What setup() gives, by name.
#define OBJECTS(OF) \
	OF(Tensor) OF(Parameter) OF(types) OF(watchers) OF(function_modes) OF(default_device) OF(grad_enabled) OF(current_stream) \
	OF(capturing) OF(empty) OF(apply) OF(run) OF(of_torch) OF(derivatives) OF(gradients) OF(bias_gradient) OF(exchange) OF(aoti) OF(check)
#define MEMBER(name) PyObject *name;
static struct { OBJECTS(MEMBER) } torch;

// What DLPack has for C, of its major version 1: a view is its DLTensor, an exchange the beginning of its DLPackExchangeAPI.
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

// Names of what tensors have.
#define NAMES(OF) OF(shape) OF(stride) OF(dtype) OF(data_ptr) OF(is_cuda) OF(is_cpu) OF(get_device) OF(is_neg) OF(requires_grad) OF(ndim) OF(CURRENT_DEVICE) \
	OF(saved_tensors) OF(needs_input_grad) OF(save_for_backward) OF(activation)
static struct { NAMES(MEMBER) PyObject *none; } name; // none: no activation

// What a program depends on of a tensor. All bytes count: there are none between members.
struct operand {
	int64_t shape[3], stride[3];
	int32_t dims, type, device, at; // at: address modulo ALIGN
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

// integers copies up to three of a tuple, and returns how many there are: -1 where they are more, or none.
static int integers(PyObject *tuple, int64_t *to) {
	Py_ssize_t n = tuple && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
	if (n > 3) n = -1;
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *o = PyTuple_GetItem(tuple, i);
		to[i] = PyLong_CheckExact(o) ? PyLong_AsLongLong(o) : -1; // others are numbers that torch knows by name alone
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
static int type_of(PyObject *dtype) {
	for (Py_ssize_t i = PyTuple_Size(torch.types); i > 0; i--)
		if (PyTuple_GetItem(torch.types, i - 1) == dtype) return (int)i;
	return 0;
}

// read_view reads a tensor by DLPack.
static int read_view(PyObject *t, struct operand *o, uint64_t *address) {
	enum { INT, FLOAT = 2, BFLOAT = 4, ON_CPU = 1, CUDA = 2, ROCM = 10 };
	static const uint8_t types[][2] = {{FLOAT, 32}, {BFLOAT, 16}, {FLOAT, 16}, {INT, 32}}; // those of torch.types
	struct view v;
	if (view(t, &v) || v.dims > 3 || v.lanes != 1) return 0;
	for (int i = 0; i < 4; i++)
		if (v.code == types[i][0] && v.bits == types[i][1]) o->type = i + 1;
	o->device = v.device_type == ON_CPU ? CPU : v.device_type == CUDA || v.device_type == ROCM ? v.device : ELSEWHERE;
	o->dims = v.dims;
	memcpy(o->shape, v.shape, (size_t)v.dims * sizeof *v.shape);
	memcpy(o->stride, v.stride, (size_t)v.dims * sizeof *v.stride);
	*address = (uint64_t)(uintptr_t)v.data + v.offset;
	return o->type && o->device != ELSEWHERE;
}

static int read_attributes(PyObject *t, struct operand *o) {
	PyObject *dtype = PyObject_GetAttr(t, name.dtype);
	o->type = dtype ? type_of(dtype) : 0;
	Py_XDECREF(dtype);
	o->device = o->type ? device_of(t) : ELSEWHERE;
	if (o->device == ELSEWHERE) return 0;
	o->dims = integers(PyObject_GetAttr(t, name.shape), o->shape);
	return o->dims >= 0 && integers(PyObject_CallMethodObjArgs(t, name.stride, NULL), o->stride) == o->dims;
}

static int read_address(PyObject *t, uint64_t *address) {
	struct view v;
	if (view && view(t, &v)) return 0;
	*address = view ? (uint64_t)(uintptr_t)v.data + v.offset : (uint64_t)integer(PyObject_CallMethodObjArgs(t, name.data_ptr, NULL));
	return view || !PyErr_Occurred();
}

static int read_operand(PyObject *t, struct operand *o, uint64_t *address) {
	int read = view ? read_view(t, o, address) : read_attributes(t, o) && read_address(t, address);
	o->at = *address % ALIGN;
	return read;
}

// turn makes an operand what it is with its last two dimensions exchanged.
static void turn(struct operand *o) {
	int64_t *of[] = {o->shape + o->dims, o->stride + o->dims};
	for (int i = 0; i < 2 && o->dims > 1; i++) {
		int64_t last = of[i][-1];
		of[i][-1] = of[i][-2];
		of[i][-2] = last;
	}
}

// What eager calls of batchgemm.torch do again and again, without the interpreter: see whether a call is
// plain, read its tensors, find its program in a table, allocate the result and queue the run. Calls that
// are not plain, or new, are left to Python: the result is None then. _programs.py puts what it did into the
// table by keep(). It empties the table by clear() before it closes a program or gives it to another stream.
// Handles are never used again, so an entry of a program that somebody else closed does no harm.
//
// Python's lock guards the table. It is given up while a run is queued, and any call of torch's may give it
// up. So nothing points into the table across such a call.

#include "_eager_tensors.h"

#include "batchgemm.h"

#include "_eager_table.h"

#include "_eager_plain.h"

static bg_status (*run_at)(bg_program, uintptr_t, const bg_addresses *);
static bg_status (*run_all_at)(uintptr_t, const bg_program *, const bg_addresses *, size_t);

// torch's functions that allocate a tensor without reading Python's arguments: all, or none.
enum { RESULTS = 4 }; // so many of torch.types, from the first on, are types of results
static struct {
	int (*empty_strided)(int64_t dims, const int64_t *shape, const int64_t *stride, int32_t type,
		int32_t device_type, int32_t device, void **tensor);
	int (*delete)(void *tensor);
	PyObject *(*wrap)(const void *tensor); // the object gets a reference of its own
	int32_t numbers[RESULTS + 2];          // torch's, of types of results, of the CPU and of GPUs
} aoti;

// Calls.

// decline leaves a call to Python. So does an exception, as Python meets it too, but for Ctrl-C, which comes
// once.
static PyObject *decline(void) {
	if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
	PyErr_Clear();
	Py_RETURN_NONE;
}

// queue queues runs, and then calls wait, unless that is None. It returns whether it did. If a program is
// closed, it returns false without an exception.
static int queue(const bg_program *programs, uint64_t stream, const bg_addresses *at, size_t n,
	PyObject *wait) {
	bg_status status;
	Py_BEGIN_ALLOW_THREADS // the driver may have to wait for the GPU
	status = n == 1 ? run_at(*programs, (uintptr_t)stream, at) :
		run_all_at((uintptr_t)stream, programs, at, n);
	Py_END_ALLOW_THREADS
	if (status == BG_ERR_HANDLE) return 0;
	if (status != BG_OK) {
		Py_XDECREF(PyObject_CallFunction(torch.check, "i", (int)status)); // raises what the library says
		return 0;
	}
	PyObject *done = wait == Py_None ? Py_NewRef(wait) : PyObject_CallNoArgs(wait);
	Py_XDECREF(done);
	return done != NULL;
}

// allocate_as returns a new tensor, or NULL without an exception.
static PyObject *allocate_as(const struct operand *as) {
	void *tensor;
	int failed, gpu = as->device != CPU;
	if (!aoti.wrap) return NULL;
	Py_BEGIN_ALLOW_THREADS // as torch.empty() does
	failed = aoti.empty_strided(as->dims, as->shape, as->stride, aoti.numbers[as->type - 1],
		aoti.numbers[RESULTS + gpu], gpu ? as->device : 0, &tensor);
	Py_END_ALLOW_THREADS
	if (failed) return NULL;
	PyObject *y = aoti.wrap(tensor);
	aoti.delete(tensor);
	return y;
}

static PyObject *allocate(const struct todo *todo) {
	PyObject *y = allocate_as(&todo->as);
	// torch says what failed
	return y || PyErr_Occurred() ? y : PyObject_Call(torch.empty, todo->args, todo->kwargs);
}

// rows_of finds the scales in one array, if they lie so, or lets Python make one. That must live until the
// run is queued.
static int rows_of(const struct todo *todo, const struct scales *s, uint64_t *rows, PyObject **made) {
	PyObject *const *of = s->tensors;
	*rows = s->address[SCALE_W];
	if (todo->after >= 0 && *rows % ALIGN == 0 &&
		(of[SCALE_X] == Py_None || *rows + (uint64_t)todo->after == s->address[SCALE_X])) return 1;
	*made = PyObject_CallFunctionObjArgs(torch.join, todo->expand, of[SCALE_X], of[SCALE_W], of[ZERO_X],
		of[SUMS_W], NULL);
	return *made && read_address(*made, rows);
}

// filled fills a result, unless the value is None.
static int filled(PyObject *y, PyObject *value) {
	PyObject *done = value == Py_None ? Py_NewRef(y) : PyObject_CallMethodObjArgs(y, name.fill_, value, NULL);
	Py_XDECREF(done);
	return done != NULL;
}

// compute returns the result of todo, a copy whose references the caller holds. If the table was emptied
// while memory was allocated, the program may be another stream's, and the call is left to Python.
static PyObject *compute(const struct todo *todo, uint64_t stream, const uint64_t address[OPERANDS],
	const struct scales *s,
	int64_t extent) {
	uint64_t before = clears;
	PyObject *y = allocate(todo);
	if (!y) return NULL;
	const uint64_t down = ~(uint64_t)(ALIGN - 1);
	bg_addresses at = {.struct_size = sizeof at, .a = address[X] & down, .b = address[W] & down,
		.sizes = address[OFFS],
		.bias = address[BIAS] & down, .extent = extent};
	PyObject *result = NULL, *made = NULL;
	int there = filled(y, todo->value) && read_address(y, &at.c) &&
		(!s->tensors || rows_of(todo, s, &at.rows, &made));
	if (there && clears == before && queue(&todo->program, stream, &at, 1, todo->wait))
		result = Py_NewRef(y);
	else if (!PyErr_Occurred())
		result = Py_NewRef(Py_None);
	Py_XDECREF(made);
	Py_DECREF(y);
	return result;
}

// try_key returns the result of a call that the table has, or None. It is None too where ends on the CPU are
// wrong; in such a call they follow each other.
static PyObject *try_key(const struct key *key, const uint64_t address[OPERANDS], const struct scales *s) {
	struct entry *e = find(key);
	if (!e) Py_RETURN_NONE;
	const struct operand *offs = &key->operands[OFFS];
	const int32_t *ends = (const int32_t *)(uintptr_t)address[OFFS];
	int64_t extent = extent_of(key);
	if (offs->type && offs->device == CPU && !in_order(ends, offs->shape[0], extent)) Py_RETURN_NONE;
	struct todo todo = hold(e->todo);
	PyObject *y = compute(&todo, key->stream, address, s, extent);
	drop(todo);
	return y;
}

// try_run returns the result of a call that the table has, or None. signs: whether to look for negatives.
static PyObject *try_run(PyObject *const *args, PyObject *const *more, long turned, int signs) {
	struct key key;
	struct scales scales;
	uint64_t address[OPERANDS];
	if (!describe(args, more, turned, &key, address, &scales)) return decline();
	if (signs && !(positive(args, key.operands, OPERANDS) && (!more || positive(more, key.scales, SCALES))))
		return decline();
	return try_key(&key, address, &scales);
}

// gradient makes the call that computes the gradient to X or W, from a call that has the gradient of the
// result in the place of the bias.
static struct key gradient(const struct key *of, int to, uint64_t address[OPERANDS]) {
	struct key key = *of;
	key.fill = 1;
	turn(&key.operands[X + W - to]);
	key.operands[to] = key.operands[BIAS], address[to] = address[BIAS];
	memset(&key.operands[BIAS], 0, sizeof *key.operands), address[BIAS] = 0;
	return key;
}

// try_gradients returns what backward() does, or None if the table lacks a call that is wanted. args has the
// gradient of x @ w + bias in the place of the bias.
static PyObject *try_gradients(PyObject *const *args, PyObject *bias, const int wanted[OPERANDS]) {
	struct key call, keys[2];
	uint64_t address[2][OPERANDS];
	if (!read_tensors(args, &call, address[X])) return decline();
	if (wanted[X] && call.operands[W].dims != 3) Py_RETURN_NONE; // depth was cut: Python transposes it
	memcpy(address[W], address[X], sizeof *address);
	for (int i = X; i <= W; i++) {
		keys[i] = gradient(&call, i, address[i]);
		if (wanted[i] && !find(&keys[i])) Py_RETURN_NONE;
	}
	PyObject *found[OPERANDS] = {NULL}, *result = NULL;
	for (int i = X; i < OPERANDS; i++) {
		if (!wanted[i]) found[i] = Py_NewRef(Py_None);
		else if (i == BIAS) found[i] = PyObject_CallFunctionObjArgs(torch.bias_gradient, args[OFFS], bias,
			args[BIAS], NULL);
		else found[i] = try_key(&keys[i], address[i], &(struct scales){0});
		if (!found[i] || (wanted[i] && found[i] == Py_None)) {
			result = Py_XNewRef(found[i]);
			break;
		}
	}
	if (found[BIAS])
		result = PyTuple_Pack(8, found[X], found[W], found[OFFS], found[BIAS], Py_None, Py_None,
			Py_None, Py_None);
	for (int i = X; i < OPERANDS; i++) Py_XDECREF(found[i]);
	return result;
}

// left returns whether a transformation that has ended left one of the tensors. Such a tensor has no memory.
// An exception is set, and stays.
static int left(PyObject *const *args) {
	PyObject *type, *value, *trace;
	PyErr_Fetch(&type, &value, &trace);
	int is = 0;
	for (int i = X; i < OPERANDS && !is; i++)
		if (i != OFFS && args[i] != Py_None)
			is = truth(PyObject_CallFunctionObjArgs(torch.wrapped, args[i], NULL));
	PyErr_Clear();
	PyErr_Restore(type, value, trace);
	return is > 0;
}

// try_differentiable calls the product with gradients, unless its arguments would be others.
static PyObject *try_differentiable(PyObject *const *args, long turned) {
	int64_t w = integer(PyObject_GetAttr(args[W], name.ndim));
	if (PyErr_Occurred() || turned || w == 2 || device_of(args[X]) == ELSEWHERE) return decline();
	if (!positive(args, NULL, OFFS) || !positive(args + BIAS, NULL, 1)) return decline();
	PyObject *y = PyObject_CallFunctionObjArgs(
		torch.apply, args[X], args[W], args[OFFS], args[BIAS], args[ACTIVATION], args[OUT], args[FILL], NULL);
	return !y && PyErr_ExceptionMatches(PyExc_RuntimeError) && left(args) ? decline() : y;
}

// The module.

// takes returns how many arguments a function takes, those of scales included.
static Py_ssize_t takes(Py_ssize_t n, Py_ssize_t without) { return n > without ? without + MORE : without; }

// ready returns whether a function has as many arguments as it takes, and setup() was called.
static int ready(Py_ssize_t n, Py_ssize_t taken) {
	if (n == taken && run_at) return 1;
	PyErr_Format(PyExc_TypeError, "%zd arguments, %zd are taken, after setup()", n, taken);
	return 0;
}

#include "_eager_layer.h"

PyDoc_STRVAR(product_doc, "product(x, w, offs, bias, activation, out_dtype, fill, turned): as in "
	"_gradients.py, or None.");
static PyObject *product(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	if (!ready(n, ARGUMENTS + 1)) return NULL;
	long turned = PyLong_AsLong(args[ARGUMENTS]);
	if (PyErr_Occurred()) return NULL;
	switch (plain(args, NULL) ? differentiable(args, NULL) : -1) {
	case 0: return try_run(args, NULL, turned, 1);
	case 1: return try_differentiable(args, turned);
	default: return decline();
	}
}

// The arguments of calls with scales.
#define SCALED ", scale_x, scale_w, zero_x, sums_w, n"

PyDoc_STRVAR(scaled_doc, "scaled(x, w, offs, bias, activation, out_dtype, fill" SCALED "): run() without "
	"gradients, or None.");
static PyObject *scaled(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	if (!ready(n, ARGUMENTS + MORE)) return NULL;
	PyObject *const *more = args + ARGUMENTS;
	return plain(args, more) && !differentiable(args, more) ? try_run(args, more, 0, 1) : decline();
}

PyDoc_STRVAR(run_doc, "run(x, w, offs, bias, activation, out_dtype, fill[" SCALED "]): the operator on what "
	"is known to be plain, or None.");
static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	return ready(n, takes(n, ARGUMENTS)) ? try_run(args, n > ARGUMENTS ? args + ARGUMENTS : NULL, 0, 0) :
		NULL;
}

// save keeps the operands for backward(), and what an activation needs.
static int save(PyObject *ctx, PyObject *const *args, PyObject *kept) {
	if (kept != Py_None && PyObject_SetAttr(ctx, name.activation, args[ACTIVATION])) return 0;
	PyObject *saved = PyObject_CallMethodObjArgs(ctx, name.save_for_backward, args[X], args[W], args[OFFS],
		args[BIAS], kept, NULL);
	Py_XDECREF(saved);
	return saved != NULL;
}

PyDoc_STRVAR(forward_doc, "forward(ctx, x, w, offs, bias, activation, out_dtype, fill): that of "
	"_gradients.py's _Eager.");
static PyObject *forward(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	if (!ready(n, ARGUMENTS + 1)) return NULL;
	PyObject *of[ARGUMENTS];
	memcpy(of, args + 1, sizeof of);
	PyObject *of_torch = PyDict_GetItemWithError(torch.of_torch, of[ACTIVATION]); // is of x @ w + bias
	if (PyErr_Occurred()) return NULL;
	if (of_torch) of[ACTIVATION] = name.none;
	PyObject *z = try_run(of, NULL, 0, 0), *y;
	if (z == Py_None) {
		Py_DECREF(z);
		z = PyObject_CallFunctionObjArgs(torch.run, of[X], of[W], of[OFFS], of[BIAS], of[ACTIVATION], of[OUT],
			of[FILL], NULL);
	}
	if (!z) return NULL;
	y = of_torch ? PyObject_CallFunctionObjArgs(of_torch, z, NULL) : Py_NewRef(z);
	if (y && !save(args[0], args + 1, PyObject_IsTrue(args[1 + ACTIVATION]) ? z : Py_None)) {
		Py_DECREF(y);
		y = NULL;
	}
	Py_DECREF(z);
	return y;
}

// derive returns the gradient of x @ w + bias, from the gradient of the result and from what forward kept
// for the activation.
static PyObject *derive(PyObject *ctx, PyObject *gy, PyObject *kept) {
	if (kept == Py_None) return Py_NewRef(gy);
	PyObject *activation = PyObject_GetAttr(ctx, name.activation),
		*by = activation ? PyObject_GetItem(torch.derivatives, activation) : NULL;
	PyObject *gz = by ? PyObject_CallFunctionObjArgs(by, gy, kept, NULL) : NULL;
	Py_XDECREF(activation);
	Py_XDECREF(by);
	return gz;
}

PyDoc_STRVAR(backward_doc, "backward(ctx, gy): that of _gradients.py's _Differentiable, or None.");
static PyObject *backward(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	if (!ready(n, 2)) return NULL;
	PyObject *saved = PyObject_GetAttr(args[0], name.saved_tensors),
		*needs = saved ? PyObject_GetAttr(args[0], name.needs_input_grad) : NULL;
	PyObject *of[OPERANDS], *bias, *kept, *rest, *gz = NULL, *result = NULL;
	int wanted[OPERANDS];
	if (needs && PyArg_ParseTuple(saved, "OOOOO", &of[X], &of[W], &of[OFFS], &bias, &kept) &&
	    PyArg_ParseTuple(needs, "pppp|OOOO", &wanted[X], &wanted[W], &wanted[OFFS], &wanted[BIAS], &rest,
	    &rest, &rest, &rest)) {
		of[BIAS] = args[1];
		int no_graph = plain(of, NULL) && positive(of, NULL, OFFS) && positive(of + BIAS, NULL, 1) &&
			truth(PyObject_CallNoArgs(torch.grad_enabled)) == 0;
		if (!no_graph) result = decline();
		else if ((of[BIAS] = gz = derive(args[0], args[1], kept))) result = try_gradients(of, bias, wanted);
		if (gz && result == Py_None) {
			Py_DECREF(result);
			result = PyObject_CallFunctionObjArgs(torch.gradients, of[X], of[W], of[OFFS], bias,
				gz, needs, NULL);
		}
	}
	Py_XDECREF(gz);
	Py_XDECREF(saved);
	Py_XDECREF(needs);
	return result;
}

// read_empty reads what torch.empty() allocates.
static int read_empty(PyObject *args, PyObject *kwargs, int device, struct operand *o) {
	PyObject *shape = PyTuple_GetItem(args, 0), *dtype = PyDict_GetItemString(kwargs, "dtype");
	int dims = shape ? integers(Py_NewRef(shape), o->shape) : -1;
	o->dims = (uint8_t)(dims < 0 ? 0 : dims);
	o->type = dtype ? type_of(dtype) : 0;
	o->device = device;
	int64_t stride = 1;
	for (int i = o->dims - 1; i >= 0; i--) {
		o->stride[i] = stride;
		stride *= o->shape[i] > 0 ? o->shape[i] : 1;
	}
	return dims >= 0 && o->type && o->type <= RESULTS;
}

// after returns todo.after for scales that are expanded so.
static int64_t after(const struct key *k, PyObject *expand) {
	int to_w, to_x;
	if (!PyArg_ParseTuple(expand, "ii", &to_w, &to_x)) return -1;
	const struct operand *of = k->scales;
	int64_t n = to_w == -1 && to_x == -1 && !of[ZERO_X].type ? elements(&of[SCALE_W]) : -1;
	return n >= 0 && (!of[SCALE_X].type || elements(&of[SCALE_X]) >= 0) ? 4 * n : -1; // of 4 bytes each
}

PyDoc_STRVAR(keep_doc, "keep(program, args, kwargs, value, wait, expand, x, w, offs, bias, activation, "
	"out_dtype, fill[" SCALED "])\n\n"
	"Later calls with such arguments run this program. args and kwargs are those of torch.empty(), a shape\n"
	"and a dtype on the device of x. That is filled with value before a run, and wait is called after it;\n"
	"either may be None. expand says to how many scales those of w, and of x, are expanded; -1: to no more\n"
	"than there are.");
static PyObject *keep(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	enum { PROGRAM, SHAPE, LIKE, VALUE, WAIT, EXPAND, DONE };
	(void)self;
	if (!ready(n, takes(n, DONE + ARGUMENTS))) return NULL;
	struct todo todo = {.program = PyLong_AsUnsignedLongLong(args[PROGRAM]), .args = args[SHAPE],
		.kwargs = args[LIKE],
		.value = args[VALUE], .wait = args[WAIT], .expand = args[EXPAND]};
	if (PyErr_Occurred()) return NULL;
	if (!PyTuple_Check(todo.args) || !PyDict_Check(todo.kwargs) || !PyTuple_Check(todo.expand))
		return PyErr_Format(PyExc_TypeError, "args, kwargs or expand is none");
	struct key key;
	struct scales scales;
	uint64_t address[OPERANDS];
	PyObject *const *call = args + DONE, *const *more = n > DONE + ARGUMENTS ? call + ARGUMENTS : NULL;
	if (!describe(call, more, 0, &key, address, &scales) ||
		!read_empty(todo.args, todo.kwargs, key.operands[X].device, &todo.as)) return decline();
	todo.after = more ? after(&key, todo.expand) : -1;
	if (PyErr_Occurred()) return NULL;
	put(&key, todo);
	Py_RETURN_NONE;
}

PyDoc_STRVAR(clear_doc, "clear(): empties the table.");
static PyObject *clear(PyObject *self, PyObject *none) {
	(void)self, (void)none;
	clears++;
	PyDict_Clear(layers);
	for (int i = 0; i < SETS * WAYS; i++) change(&table[i / WAYS][i % WAYS].todo, (struct todo){0});
	Py_RETURN_NONE;
}

PyDoc_STRVAR(setup_doc, "setup(run_at=, run_all_at=, ...): the addresses of bg_run_at and bg_run_all_at, and "
	"what of torch, and of\nthe package, this module uses.");
static PyObject *setup(PyObject *self, PyObject *args, PyObject *kwargs) {
	(void)self, (void)args;
#define SLOT(name) {#name, &torch.name},
	const struct { const char *name; PyObject **slot; } slots[] = {OBJECTS(SLOT)};
	static const char *const functions[] = {"run_at", "run_all_at"};
	PyObject *address[2];
	for (int i = 0; i < 2; i++)
		if (!kwargs || !(address[i] = PyDict_GetItemString(kwargs, functions[i])))
			return PyErr_Format(PyExc_TypeError, "%s is missing", functions[i]);
	for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
		PyObject *o = PyDict_GetItemString(kwargs, slots[i].name);
		if (!o) return PyErr_Format(PyExc_TypeError, "%s is missing", slots[i].name);
		PyObject *old = *slots[i].slot;
		*slots[i].slot = Py_NewRef(o);
		Py_XDECREF(old);
	}
	run_at = (bg_status(*)(bg_program, uintptr_t, const bg_addresses *))PyLong_AsVoidPtr(address[0]);
	run_all_at = (bg_status(*)(uintptr_t, const bg_program *, const bg_addresses *, size_t))PyLong_AsVoidPtr(
		address[1]);
	static const char capsule[] = "dlpack_exchange_api";
	const struct exchange *e = PyCapsule_IsValid(torch.exchange, capsule) ?
		PyCapsule_GetPointer(torch.exchange, capsule) : NULL;
	while (e && e->major != 1) e = e->previous;
	view = e ? e->view : NULL;
	unsigned long long at[3] = {0};
	int32_t *n = aoti.numbers;
	if (torch.aoti != Py_None && !PyArg_ParseTuple(torch.aoti, "KKKiiiiii", at, at + 1, at + 2, n, n + 1,
		n + 2, n + 3, n + 4, n + 5)) return NULL;
	aoti.empty_strided = (int (*)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t,
		void **))(uintptr_t)at[0];
	aoti.delete = (int (*)(void *))(uintptr_t)at[1];
	aoti.wrap = (PyObject * (*)(const void *))(uintptr_t)at[2];
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyMODINIT_FUNC PyInit__eager(void) {
	static PyMethodDef methods[] = {
		{"product", (PyCFunction)(void (*)(void))product, METH_FASTCALL, product_doc},
		{"scaled", (PyCFunction)(void (*)(void))scaled, METH_FASTCALL, scaled_doc},
		{"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, run_doc},
		{"layer", (PyCFunction)(void (*)(void))layer, METH_FASTCALL, layer_doc},
		{"keep_layer", (PyCFunction)(void (*)(void))keep_layer, METH_FASTCALL, keep_layer_doc},
		{"forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL, forward_doc},
		{"backward", (PyCFunction)(void (*)(void))backward, METH_FASTCALL, backward_doc},
		{"keep", (PyCFunction)(void (*)(void))keep, METH_FASTCALL, keep_doc},
		{"clear", clear, METH_NOARGS, clear_doc},
		{"setup", (PyCFunction)(void (*)(void))setup, METH_VARARGS | METH_KEYWORDS, setup_doc},
		{0},
	};
	static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_eager", NULL, -1, methods, NULL, NULL, NULL, NULL};
#define NAME(of) {#of, &name.of},
	const struct { const char *text; PyObject **slot; } names[] = {NAMES(NAME)};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!(*names[i].slot = PyUnicode_InternFromString(names[i].text))) return NULL;
	name.none = PyUnicode_InternFromString("");
	return name.none && (layers = PyDict_New()) ? PyModule_Create(&module) : NULL;
}

// What eager calls of torch.py do again and again, without the interpreter: see whether a call is plain, read its tensors,
// find its program in a table, allocate the result and queue the run. What is not plain, or new, is left to torch.py: the
// result is None then. _programs.py puts what it did into the table, by keep(), and empties that by clear() before it closes
// a program or gives it to another stream. A handle is never used again, so that an entry of a program that somebody else closed
// does no harm.
//
// Python's lock guards the table. It is given up while a run is queued, and may be in any call of torch's, so that nothing
// points into the table across one.

#include "_eager_tensors.h"

#include "batchgemm.h"

enum { X, W, OFFS, BIAS, OPERANDS, ACTIVATION = OPERANDS, OUT, ZERO, ARGUMENTS };
enum { SCALE_X, SCALE_W, ZERO_X, SUMS_W, SCALES, COLUMNS = SCALES, MORE }; // behind those, of calls with scales
enum { SETS = 256, WAYS = 4 };                                             // of the table

static bg_status (*run_at)(bg_program, uintptr_t, const bg_addresses *);

// torch's functions that allocate a tensor, without a reading of Python's arguments, all or none.
enum { RESULTS = 4 }; // the first of torch.types, of which results are
static struct {
	int (*empty_strided)(int64_t dims, const int64_t *shape, const int64_t *stride, int32_t type, int32_t device_type, int32_t device, void **tensor);
	int (*delete)(void *tensor);
	PyObject *(*wrap)(const void *tensor); // the object has a reference of its own
	int32_t numbers[RESULTS + 2];          // of those, the CPU and GPUs
} aoti;

// What a program, and the result, depend on. All bytes count: there are none between members.
struct key {
	uint64_t stream;
	int32_t activation, out, zero, scaled;
	struct operand operands[OPERANDS];
	int64_t columns; // from here on, of calls with scales alone. -1: all
	struct operand scales[SCALES];
};

// The scales of a call.
struct scales {
	PyObject *const *tensors; // NULL: there are none
	uint64_t address[SCALES];
};

// What is to be done.
struct todo {
	bg_program program;
	PyObject *args, *kwargs; // of torch.empty()
	struct operand as;       // what that allocates
	PyObject *wait;          // to be called behind the run, or None
	Py_ssize_t rows;         // of the result; -1: all
	PyObject *expand;        // to how many scales there are to be, for torch.py
	int64_t behind;          // the bytes from scale_w to scale_x of scales that are as kernels want them; -1: they never are
};

static struct entry {
	struct key key;
	struct todo todo; // without args there is none
} table[SETS][WAYS];
static unsigned victim;
static uint64_t clears; // how often the table was emptied

static int activation_of(PyObject *o) {
	static const char *const names[] = {"", "relu", "gelu", "silu"};
	Py_ssize_t length = 0;
	const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &length) : NULL;
	for (int i = 0; text && i < 4; i++)
		if (strlen(names[i]) == (size_t)length && !memcmp(text, names[i], (size_t)length)) return i;
	return -1;
}

// read_stream finds the stream of a GPU that is torch's current one, unless a graph is captured, of which torch.py keeps books.
static int read_stream(int device, uint64_t *stream) {
	if (device == CPU) return 1;
	if (truth(PyObject_CallNoArgs(torch.capturing)) != 0) return 0;
	PyObject *index = PyLong_FromLong(device);
	PyObject *at = index ? PyObject_CallFunctionObjArgs(torch.current_stream, index, NULL) : NULL;
	Py_XDECREF(index);
	*stream = at ? PyLong_AsUnsignedLongLong(at) : 0;
	Py_XDECREF(at);
	return !PyErr_Occurred();
}

// read_tensors reads the operands, and the stream.
static int read_tensors(PyObject *const *args, struct key *k, uint64_t address[OPERANDS]) {
	memset(k, 0, sizeof *k);
	memset(address, 0, OPERANDS * sizeof *address);
	for (int i = 0; i < OPERANDS; i++)
		if (args[i] != Py_None && !read_operand(args[i], &k->operands[i], &address[i])) return 0;
	return read_stream(k->operands[X].device, &k->stream);
}

// read_scales reads what calls with scales have behind the other arguments.
static int read_scales(PyObject *const *more, struct key *k, struct scales *s) {
	*s = (struct scales){.tensors = more};
	if (!more) return 1;
	k->scaled = 1;
	for (int i = 0; i < SCALES; i++) {
		if (more[i] != Py_None && !read_operand(more[i], &k->scales[i], &s->address[i])) return 0;
		k->scales[i].at = 0; // kernels have them at a multiple of ALIGN, copied or not
	}
	k->columns = more[COLUMNS] == Py_None ? -1 : PyLong_CheckExact(more[COLUMNS]) ? PyLong_AsLongLong(more[COLUMNS]) : -2;
	return more[COLUMNS] == Py_None || k->columns >= 0;
}

// describe reads the arguments of a call; more is NULL where it has no scales. turned has a bit for X and one for W.
static int describe(PyObject *const *args, PyObject *const *more, long turned, struct key *k, uint64_t address[OPERANDS], struct scales *s) {
	if (!read_tensors(args, k, address) || !read_scales(more, k, s)) return 0;
	for (int i = X; i <= W; i++)
		if (turned >> i & 1) turn(&k->operands[i]);
	k->activation = activation_of(args[ACTIVATION]);
	k->out = args[OUT] == Py_None ? 0 : type_of(args[OUT]);
	k->zero = PyObject_IsTrue(args[ZERO]);
	return k->activation >= 0 && k->zero >= 0 && (args[OUT] == Py_None || k->out);
}

// The table.

// size_of returns how many bytes of a key count.
static size_t size_of(const struct key *k) { return k->scaled ? sizeof *k : offsetof(struct key, columns); }

static struct entry *set_of(const struct key *k) {
	uint64_t words[sizeof *k / sizeof(uint64_t)], hash = 0;
	size_t size = size_of(k);
	memcpy(words, k, size);
	for (size_t i = 0; i < size / sizeof *words; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32; // products have the low bits of their factors in all bits above alone
	}
	return table[hash % SETS];
}

static struct entry *find(const struct key *k) {
	struct entry *e = set_of(k);
	for (int i = 0; i < WAYS; i++)
		if (e[i].todo.args && !memcmp(&e[i].key, k, size_of(k))) return &e[i];
	return NULL;
}

static struct todo hold(struct todo todo) {
	Py_XINCREF(todo.args);
	Py_XINCREF(todo.kwargs);
	Py_XINCREF(todo.wait);
	Py_XINCREF(todo.expand);
	return todo;
}

static void drop(struct todo todo) {
	Py_XDECREF(todo.args);
	Py_XDECREF(todo.kwargs);
	Py_XDECREF(todo.wait);
	Py_XDECREF(todo.expand);
}

// change puts something else, or nothing, in the place of what is to be done. What held that may run other code when it is dropped.
static void change(struct todo *at, struct todo to) {
	struct todo old = *at;
	*at = hold(to);
	drop(old);
}

static void put(const struct key *k, struct todo todo) {
	struct entry *set = set_of(k), *e = find(k);
	for (int i = 0; !e && i < WAYS; i++)
		if (!set[i].todo.args) e = &set[i];
	if (!e) e = &set[victim++ % WAYS];
	e->key = *k;
	change(&e->todo, todo);
}

// Calls.

// decline leaves a call to torch.py, and so does an exception: torch.py meets it too. That of Ctrl-C comes once.
static PyObject *decline(void) {
	if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
	PyErr_Clear();
	Py_RETURN_NONE;
}

// queue queues a run, and on the CPU waits for it. It returns whether that was done; where the program is closed there
// is no exception.
static int queue(const struct todo *todo, uint64_t stream, const bg_addresses *at) {
	bg_status status;
	Py_BEGIN_ALLOW_THREADS // the driver may have to wait for the GPU
	status = run_at(todo->program, (uintptr_t)stream, at);
	Py_END_ALLOW_THREADS
	if (status == BG_ERR_HANDLE) return 0;
	if (status != BG_OK) {
		Py_XDECREF(PyObject_CallFunction(torch.check, "i", (int)status)); // raises what the library says
		return 0;
	}
	if (todo->wait == Py_None) return 1;
	PyObject *done = PyObject_CallNoArgs(todo->wait);
	Py_XDECREF(done);
	return done != NULL;
}

static PyObject *allocate(const struct todo *todo) {
	const struct operand *as = &todo->as;
	if (aoti.wrap) {
		void *tensor;
		int failed, gpu = as->device != CPU;
		Py_BEGIN_ALLOW_THREADS // as torch.empty() does
		failed = aoti.empty_strided(as->dims, as->shape, as->stride, aoti.numbers[as->type - 1], aoti.numbers[RESULTS + gpu], gpu ? as->device : 0, &tensor);
		Py_END_ALLOW_THREADS
		if (!failed) {
			PyObject *y = aoti.wrap(tensor);
			aoti.delete(tensor);
			return y;
		}
	} // otherwise torch says what failed
	return PyObject_Call(torch.empty, todo->args, todo->kwargs);
}

// rows_of finds the scales in one array, where they lie so, or has torch.py make one, which is to live until the run is queued.
static int rows_of(const struct todo *todo, const struct scales *s, uint64_t *rows, PyObject **made) {
	PyObject *const *of = s->tensors;
	*rows = s->address[SCALE_W];
	if (todo->behind >= 0 && *rows % ALIGN == 0 && (of[SCALE_X] == Py_None || *rows + (uint64_t)todo->behind == s->address[SCALE_X])) return 1;
	*made = PyObject_CallFunctionObjArgs(torch.join, todo->expand, of[SCALE_X], of[SCALE_W], of[ZERO_X], of[SUMS_W], NULL);
	return *made && read_address(*made, rows);
}

// compute returns the result of what is to be done. todo is a copy, and its references are the caller's. Where the table was
// emptied while memory was allocated, the program may be another stream's.
static PyObject *compute(const struct todo *todo, uint64_t stream, const uint64_t address[OPERANDS], const struct scales *s) {
	uint64_t before = clears;
	PyObject *y = allocate(todo);
	if (!y) return NULL;
	const uint64_t down = ~(uint64_t)(ALIGN - 1);
	bg_addresses at = {.struct_size = sizeof at, .a = address[X] & down, .b = address[W] & down, .sizes = address[OFFS], .bias = address[BIAS] & down};
	PyObject *result = NULL, *made = NULL;
	if (read_address(y, &at.c) && (!s->tensors || rows_of(todo, s, &at.rows, &made)) && clears == before && queue(todo, stream, &at))
		result = todo->rows < 0 ? Py_NewRef(y) : PySequence_GetSlice(y, 0, todo->rows);
	else if (!PyErr_Occurred())
		result = Py_NewRef(Py_None);
	Py_XDECREF(made);
	Py_DECREF(y);
	return result;
}

// try_key returns the result of a call that the table has, or None.
static PyObject *try_key(const struct key *key, const uint64_t address[OPERANDS], const struct scales *s) {
	struct entry *e = find(key);
	if (!e) Py_RETURN_NONE;
	struct todo todo = hold(e->todo);
	PyObject *y = compute(&todo, key->stream, address, s);
	drop(todo);
	return y;
}

static PyObject *try_run(PyObject *const *args, PyObject *const *more, long turned) {
	struct key key;
	struct scales scales;
	uint64_t address[OPERANDS];
	return describe(args, more, turned, &key, address, &scales) ? try_key(&key, address, &scales) : decline();
}

// gradient makes the call of the gradient to X or W of one that has that of the result in the place of the bias.
static struct key gradient(const struct key *of, int to, uint64_t address[OPERANDS]) {
	struct key key = *of;
	key.zero = 1;
	turn(&key.operands[X + W - to]);
	key.operands[to] = key.operands[BIAS], address[to] = address[BIAS];
	memset(&key.operands[BIAS], 0, sizeof *key.operands), address[BIAS] = 0;
	return key;
}

// try_gradients returns what backward() does, or None, where the table does not have all that is wanted. args has the gradient
// of x @ w + bias in the place of the bias.
static PyObject *try_gradients(PyObject *const *args, PyObject *bias, const int wanted[OPERANDS]) {
	struct key call, keys[2];
	uint64_t address[2][OPERANDS];
	if (!read_tensors(args, &call, address[X])) return decline();
	if (wanted[X] && call.operands[W].dims != 3) Py_RETURN_NONE; // depth was cut, and torch.py turns it
	memcpy(address[W], address[X], sizeof *address);
	for (int i = X; i <= W; i++) {
		keys[i] = gradient(&call, i, address[i]);
		if (wanted[i] && !find(&keys[i])) Py_RETURN_NONE;
	}
	PyObject *found[OPERANDS] = {NULL}, *result = NULL;
	for (int i = X; i < OPERANDS; i++) {
		if (!wanted[i]) found[i] = Py_NewRef(Py_None);
		else if (i == BIAS) found[i] = PyObject_CallFunctionObjArgs(torch.bias_gradient, args[OFFS], bias, args[BIAS], NULL);
		else found[i] = try_key(&keys[i], address[i], &(struct scales){0});
		if (!found[i] || (wanted[i] && found[i] == Py_None)) {
			result = Py_XNewRef(found[i]);
			break;
		}
	}
	if (found[BIAS]) result = PyTuple_Pack(7, found[X], found[W], found[OFFS], found[BIAS], Py_None, Py_None, Py_None);
	for (int i = X; i < OPERANDS; i++) Py_XDECREF(found[i]);
	return result;
}

// unseen returns whether no mode, trace, transformation or profiler is to see what is done: torch.py's _watched().
static int unseen(void) {
	for (Py_ssize_t i = PyTuple_Size(torch.watchers); i > 0; i--)
		if (truth(PyObject_CallNoArgs(PyTuple_GetItem(torch.watchers, i - 1))) != 0) return 0;
	int64_t modes = integer(PyObject_CallNoArgs(torch.function_modes));
	if (modes != 1) return modes == 0;
	PyObject *device = PyObject_GetAttr(torch.default_device, name.CURRENT_DEVICE); // is a mode too
	int is = device && device != Py_None;
	Py_XDECREF(device);
	return is;
}

// tensors returns whether arguments are tensors and no more, or None.
static int tensors(PyObject *const *args, int n) {
	for (int i = 0; i < n; i++) {
		PyObject *type = (PyObject *)Py_TYPE(args[i]);
		if (type != torch.Tensor && type != torch.Parameter && args[i] != Py_None) return 0;
	}
	return 1;
}

// positive returns whether memory has what the tensors are, and not the negative of it.
static int positive(PyObject *const *args, int n) {
	for (int i = 0; i < n; i++)
		if (args[i] != Py_None && truth(PyObject_CallMethodObjArgs(args[i], name.is_neg, NULL)) != 0) return 0;
	return 1;
}

// plain returns whether that is so, and nobody is to see the call.
static int plain(PyObject *const *args, PyObject *const *more) {
	return args[X] != Py_None && args[W] != Py_None && tensors(args, OPERANDS) && (!more || tensors(more, SCALES)) && unseen() &&
	       positive(args, OFFS) && positive(args + BIAS, 1) && (!more || positive(more, SCALES));
}

// wants_gradients returns that, or -1 with an exception.
static int wants_gradients(PyObject *const *args) {
	int wants = truth(PyObject_CallNoArgs(torch.grad_enabled));
	if (wants != 1) return wants;
	for (int i = wants = 0; i < OPERANDS && !wants; i++)
		if (i != OFFS && args[i] != Py_None) wants = truth(PyObject_GetAttr(args[i], name.requires_grad));
	return wants;
}

// try_differentiable calls torch.py's product with gradients, unless that is to see other arguments.
static PyObject *try_differentiable(PyObject *const *args, long turned) {
	int64_t w = integer(PyObject_GetAttr(args[W], name.ndim));
	if (PyErr_Occurred() || turned || w == 2 || device_of(args[X]) == ELSEWHERE) return decline();
	return PyObject_CallFunctionObjArgs(torch.apply, args[X], args[W], args[OFFS], args[BIAS], args[ACTIVATION], args[OUT], args[ZERO], NULL);
}

// The module.

// takes returns how many arguments are to be there, of which some may be those of scales.
static Py_ssize_t takes(Py_ssize_t n, Py_ssize_t without) { return n > without ? without + MORE : without; }

// ready returns whether a function has as many arguments as it takes, and setup() was called.
static int ready(Py_ssize_t n, Py_ssize_t taken) {
	if (n == taken && run_at) return 1;
	PyErr_Format(PyExc_TypeError, "%zd arguments, %zd are taken, after setup()", n, taken);
	return 0;
}

PyDoc_STRVAR(product_doc, "product(x, w, offs, bias, activation, out_dtype, zero, turned): as in torch.py, or None.");
static PyObject *product(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	if (!ready(n, ARGUMENTS + 1)) return NULL;
	long turned = PyLong_AsLong(args[ARGUMENTS]);
	if (PyErr_Occurred()) return NULL;
	switch (plain(args, NULL) ? wants_gradients(args) : -1) {
	case 0: return try_run(args, NULL, turned);
	case 1: return try_differentiable(args, turned);
	default: return decline();
	}
}

// The arguments of calls with scales.
#define SCALED ", scale_x, scale_w, zero_x, sums_w, n"

PyDoc_STRVAR(scaled_doc, "scaled(x, w, offs, bias, activation, out_dtype, zero" SCALED "): as in torch.py, without gradients, or None.");
static PyObject *scaled(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	if (!ready(n, ARGUMENTS + MORE)) return NULL;
	return plain(args, args + ARGUMENTS) ? try_run(args, args + ARGUMENTS, 0) : decline();
}

PyDoc_STRVAR(run_doc, "run(x, w, offs, bias, activation, out_dtype, zero[" SCALED "]): the operator on what is known to be plain, or None.");
static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	return ready(n, takes(n, ARGUMENTS)) ? try_run(args, n > ARGUMENTS ? args + ARGUMENTS : NULL, 0) : NULL;
}

// save makes backward() find the operands, and what is kept for an activation.
static int save(PyObject *ctx, PyObject *const *args, PyObject *kept) {
	if (kept != Py_None && PyObject_SetAttr(ctx, name.activation, args[ACTIVATION])) return 0;
	PyObject *saved = PyObject_CallMethodObjArgs(ctx, name.save_for_backward, args[X], args[W], args[OFFS], args[BIAS], kept, NULL);
	Py_XDECREF(saved);
	return saved != NULL;
}

PyDoc_STRVAR(forward_doc, "forward(ctx, x, w, offs, bias, activation, out_dtype, zero): that of torch.py's _Eager.");
static PyObject *forward(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	if (!ready(n, ARGUMENTS + 1)) return NULL;
	PyObject *of[ARGUMENTS];
	memcpy(of, args + 1, sizeof of);
	PyObject *of_torch = PyDict_GetItemWithError(torch.of_torch, of[ACTIVATION]); // is of x @ w + bias
	if (PyErr_Occurred()) return NULL;
	if (of_torch) of[ACTIVATION] = name.none;
	PyObject *z = try_run(of, NULL, 0), *y;
	if (z == Py_None) {
		Py_DECREF(z);
		z = PyObject_CallFunctionObjArgs(torch.run, of[X], of[W], of[OFFS], of[BIAS], of[ACTIVATION], of[OUT], of[ZERO], NULL);
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

// derive returns the gradient of x @ w + bias, of that of the result and of what forward has kept for the activation.
static PyObject *derive(PyObject *ctx, PyObject *gy, PyObject *kept) {
	if (kept == Py_None) return Py_NewRef(gy);
	PyObject *activation = PyObject_GetAttr(ctx, name.activation), *by = activation ? PyObject_GetItem(torch.derivatives, activation) : NULL;
	PyObject *gz = by ? PyObject_CallFunctionObjArgs(by, gy, kept, NULL) : NULL;
	Py_XDECREF(activation);
	Py_XDECREF(by);
	return gz;
}

PyDoc_STRVAR(backward_doc, "backward(ctx, gy): that of torch.py's _Differentiable, or None.");
static PyObject *backward(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	if (!ready(n, 2)) return NULL;
	PyObject *saved = PyObject_GetAttr(args[0], name.saved_tensors), *needs = saved ? PyObject_GetAttr(args[0], name.needs_input_grad) : NULL;
	PyObject *of[OPERANDS], *bias, *kept, *rest, *gz = NULL, *result = NULL;
	int wanted[OPERANDS];
	if (needs && PyArg_ParseTuple(saved, "OOOOO", &of[X], &of[W], &of[OFFS], &bias, &kept) &&
	    PyArg_ParseTuple(needs, "pppp|OOO", &wanted[X], &wanted[W], &wanted[OFFS], &wanted[BIAS], &rest, &rest, &rest)) {
		of[BIAS] = args[1];
		int no_graph = plain(of, NULL) && truth(PyObject_CallNoArgs(torch.grad_enabled)) == 0;
		if (!no_graph) result = decline();
		else if ((of[BIAS] = gz = derive(args[0], args[1], kept))) result = try_gradients(of, bias, wanted);
		if (gz && result == Py_None) {
			Py_DECREF(result);
			result = PyObject_CallFunctionObjArgs(torch.gradients, of[X], of[W], of[OFFS], bias, gz, needs, NULL);
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

// behind returns the todo.behind of scales that are expanded so.
static int64_t behind(const struct key *k, PyObject *expand) {
	int to_w, to_x;
	if (!PyArg_ParseTuple(expand, "ii", &to_w, &to_x)) return -1;
	const struct operand *of = k->scales;
	int64_t n = to_w == -1 && to_x == -1 && !of[ZERO_X].type ? elements(&of[SCALE_W]) : -1;
	return n >= 0 && (!of[SCALE_X].type || elements(&of[SCALE_X]) >= 0) ? 4 * n : -1; // of 4 bytes each
}

PyDoc_STRVAR(keep_doc, "keep(program, args, kwargs, rows, wait, expand, x, w, offs, bias, activation, out_dtype, zero[" SCALED "])\n\n"
	"Later calls with such arguments run this program. args and kwargs are those of torch.empty(), a shape and a dtype on the\n"
	"device of x. The first rows of that are the result (None: all), and wait is called behind a run, or None. expand says to how\n"
	"many scales those of w, and of x, are expanded; -1: to no more than there are.");
static PyObject *keep(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	enum { PROGRAM, SHAPE, LIKE, ROWS, WAIT, EXPAND, DONE };
	(void)self;
	if (!ready(n, takes(n, DONE + ARGUMENTS))) return NULL;
	struct todo todo = {.program = PyLong_AsUnsignedLongLong(args[PROGRAM]), .args = args[SHAPE], .kwargs = args[LIKE], .wait = args[WAIT], .expand = args[EXPAND]};
	todo.rows = args[ROWS] == Py_None ? -1 : PyLong_AsSsize_t(args[ROWS]);
	if (PyErr_Occurred()) return NULL;
	if (!PyTuple_Check(todo.args) || !PyDict_Check(todo.kwargs) || !PyTuple_Check(todo.expand))
		return PyErr_Format(PyExc_TypeError, "args, kwargs or expand is none");
	struct key key;
	struct scales scales;
	uint64_t address[OPERANDS];
	PyObject *const *call = args + DONE, *const *more = n > DONE + ARGUMENTS ? call + ARGUMENTS : NULL;
	if (!describe(call, more, 0, &key, address, &scales) || !read_empty(todo.args, todo.kwargs, key.operands[X].device, &todo.as)) return decline();
	todo.behind = more ? behind(&key, todo.expand) : -1;
	if (PyErr_Occurred()) return NULL;
	put(&key, todo);
	Py_RETURN_NONE;
}

PyDoc_STRVAR(clear_doc, "clear(): empties the table.");
static PyObject *clear(PyObject *self, PyObject *none) {
	(void)self, (void)none;
	clears++;
	for (int i = 0; i < SETS * WAYS; i++) change(&table[i / WAYS][i % WAYS].todo, (struct todo){0});
	Py_RETURN_NONE;
}

PyDoc_STRVAR(setup_doc, "setup(run_at=, ...): the address of bg_run_at, and what of torch, and of torch.py, this module uses.");
static PyObject *setup(PyObject *self, PyObject *args, PyObject *kwargs) {
	(void)self, (void)args;
#define SLOT(name) {#name, &torch.name},
	const struct { const char *name; PyObject **slot; } slots[] = {OBJECTS(SLOT)};
	PyObject *address = kwargs ? PyDict_GetItemString(kwargs, "run_at") : NULL;
	if (!address) return PyErr_Format(PyExc_TypeError, "run_at is missing");
	for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
		PyObject *o = PyDict_GetItemString(kwargs, slots[i].name);
		if (!o) return PyErr_Format(PyExc_TypeError, "%s is missing", slots[i].name);
		PyObject *old = *slots[i].slot;
		*slots[i].slot = Py_NewRef(o);
		Py_XDECREF(old);
	}
	run_at = (bg_status(*)(bg_program, uintptr_t, const bg_addresses *))PyLong_AsVoidPtr(address);
	static const char capsule[] = "dlpack_exchange_api";
	const struct exchange *e = PyCapsule_IsValid(torch.exchange, capsule) ? PyCapsule_GetPointer(torch.exchange, capsule) : NULL;
	while (e && e->major != 1) e = e->previous;
	view = e ? e->view : NULL;
	unsigned long long at[3] = {0};
	int32_t *n = aoti.numbers;
	if (torch.aoti != Py_None && !PyArg_ParseTuple(torch.aoti, "KKKiiiiii", at, at + 1, at + 2, n, n + 1, n + 2, n + 3, n + 4, n + 5)) return NULL;
	aoti.empty_strided = (int (*)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, void **))(uintptr_t)at[0];
	aoti.delete = (int (*)(void *))(uintptr_t)at[1];
	aoti.wrap = (PyObject * (*)(const void *))(uintptr_t)at[2];
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyMODINIT_FUNC PyInit__eager(void) {
	static PyMethodDef methods[] = {
		{"product", (PyCFunction)(void (*)(void))product, METH_FASTCALL, product_doc},
		{"scaled", (PyCFunction)(void (*)(void))scaled, METH_FASTCALL, scaled_doc},
		{"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, run_doc},
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
	return (name.none = PyUnicode_InternFromString("")) ? PyModule_Create(&module) : NULL;
}

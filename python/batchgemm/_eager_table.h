// The table of _eager.c: what calls are of a kind, and what is to be done for each.

enum { X, W, OFFS, BIAS, OPERANDS, ACTIVATION = OPERANDS, OUT, FILL, ARGUMENTS };
// after those, of calls with scales
enum { SCALE_X, SCALE_W, ZERO_X, SUMS_W, SCALES, COLUMNS = SCALES, MORE };
enum { SETS = 256, WAYS = 4 };                                             // of the table

// What a program, and the result, depend on. All bytes count: there are none between members.
struct key {
	uint64_t stream;
	int32_t activation, out, fill, scaled;
	struct operand operands[OPERANDS];
	int64_t columns; // from here on, of calls with scales alone. -1: all
	struct operand scales[SCALES];
};

// The scales of a call.
struct scales {
	PyObject *const *tensors; // NULL: there are none
	uint64_t address[SCALES];
};

// What to do for a call.
struct todo {
	bg_program program;
	PyObject *args, *kwargs; // of torch.empty()
	struct operand as;       // what that allocates
	PyObject *value;         // what the result is filled with before the run, or None
	PyObject *wait;          // to be called after the run, or None
	PyObject *expand;        // how many scales there must be, for Python
	// bytes from scale_w to scale_x where scales lie as kernels take them; -1: they never do
	int64_t after;
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

// fill_of returns 1 for 0 and 2 for NaN, 0 for None, and -1 for what Python is to refuse.
static int fill_of(PyObject *o) {
	if (o == Py_None) return 0;
	double value = PyFloat_Check(o) || PyLong_Check(o) ? PyFloat_AsDouble(o) : 1;
	return value == 0 ? 1 : value != value ? 2 : -1;
}

// read_stream finds torch's current stream of a GPU, unless a graph is captured: Python keeps the books of
// graphs.
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

// read_scales reads what calls with scales have after the other arguments.
static int read_scales(PyObject *const *more, struct key *k, struct scales *s) {
	*s = (struct scales){.tensors = more};
	if (!more) return 1;
	k->scaled = 1;
	for (int i = 0; i < SCALES; i++) {
		if (more[i] != Py_None && !read_operand(more[i], &k->scales[i], &s->address[i])) return 0;
		k->scales[i].at = 0; // kernels have them at a multiple of ALIGN, copied or not
	}
	k->columns = more[COLUMNS] == Py_None ? -1 : PyLong_CheckExact(more[COLUMNS]) ?
		PyLong_AsLongLong(more[COLUMNS]) : -2;
	return more[COLUMNS] == Py_None || k->columns >= 0;
}

// describe reads the arguments of a call; more is NULL where it has no scales. turned has a bit for X and one
// for W.
static int describe(PyObject *const *args, PyObject *const *more, long turned, struct key *k,
	uint64_t address[OPERANDS], struct scales *s) {
	if (!read_tensors(args, k, address) || !read_scales(more, k, s)) return 0;
	for (int i = X; i <= W; i++)
		if (turned >> i & 1) turn(&k->operands[i]);
	k->activation = activation_of(args[ACTIVATION]);
	k->out = args[OUT] == Py_None ? 0 : type_of(args[OUT]);
	k->fill = fill_of(args[FILL]);
	return k->activation >= 0 && k->fill >= 0 && (args[OUT] == Py_None || k->out);
}

// extent_of returns what offs cuts: the depth where w has 2 dimensions, or rows. 0: there is no offs.
static int64_t extent_of(const struct key *k) {
	const struct operand *x = &k->operands[X];
	return !k->operands[OFFS].type ? 0 : k->operands[W].dims == 2 ? x->shape[1] : x->shape[0];
}

// in_order returns whether ends do not go down from 0, nor beyond the extent.
static int in_order(const int32_t *ends, int64_t n, int64_t extent) {
	int wrong = n > 0 && (ends[0] < 0 || ends[n - 1] > extent);
	for (int64_t i = 1; i < n; i++) wrong |= ends[i] < ends[i - 1];
	return !wrong;
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
	Py_XINCREF(todo.value);
	Py_XINCREF(todo.wait);
	Py_XINCREF(todo.expand);
	return todo;
}

static void drop(struct todo todo) {
	Py_XDECREF(todo.args);
	Py_XDECREF(todo.kwargs);
	Py_XDECREF(todo.value);
	Py_XDECREF(todo.wait);
	Py_XDECREF(todo.expand);
}

// change puts something else, or nothing, in the place of what is to be done. What held that may run other
// code when it is dropped.
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

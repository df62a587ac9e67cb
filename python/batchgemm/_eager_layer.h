// Calls of a layer of experts (_fused.py): a table of them, and what one does.

enum { TENSORS = 8 }; // x, gate, up, down, index, weights, and the biases of gate and up and of down
enum { STEPS = 4 };   // routing, two products, sum

// What a call is, as bytes.
struct call {
	struct kind kinds[TENSORS];
	uint64_t stream;
};

// What to do for a call. Python packs it.
struct layer {
	bg_program programs[STEPS];
	int64_t tokens, rows; // of a run
	int64_t joined;       // gate and up are in one tensor
	int64_t size;         // bytes of a block: the words of the routing, and from these bytes on h and rows
	int64_t at_h, at_rows;
};

static PyObject *layers; // by the bytes of a call, and its options: a struct layer as bytes, and wait

// read_call reads tensors, and the lines of ALIGN bytes where they begin, 0 for None. It returns whether they
// are plain, and without gradients.
static int read_call(PyObject *tuple, struct call *c, uint64_t lines[TENSORS]) {
	PyObject *of[TENSORS];
	memset(c, 0, sizeof *c);
	memset(lines, 0, TENSORS * sizeof *lines);
	if (!view || !PyTuple_Check(tuple) || PyTuple_Size(tuple) != TENSORS) return 0;
	for (int i = 0; i < TENSORS; i++) of[i] = PyTuple_GetItem(tuple, i);
	if (of[0] == Py_None || !tensors(of, TENSORS) || !unseen()) return 0;
	int wants = truth(PyObject_CallNoArgs(torch.grad_enabled));
	if (wants == 1) wants = wants_gradients(of, TENSORS);
	for (int i = 0; !wants && i < TENSORS; i++)
		if (of[i] != Py_None && !read_kind(of[i], &c->kinds[i], &lines[i])) return 0;
	return !wants;
}

// queue_layer queues the runs of a layer, whose block is at words and whose result is at y.
static int queue_layer(const struct layer *l, uint64_t stream, const uint64_t lines[TENSORS], uint64_t words,
	uint64_t y, PyObject *wait) {
	enum { X, GATE, UP, DOWN, INDEX, WEIGHTS, BIAS, DOWN_BIAS };
	const uint64_t h = words + (uint64_t)l->at_h, rows = words + (uint64_t)l->at_rows;
	bg_addresses at[STEPS] = {
		{.a = lines[WEIGHTS], .c = words, .sizes = lines[INDEX], .extent = l->tokens},
		{.a = lines[X], .b = lines[GATE], .c = h, .sizes = words, .b2 = lines[l->joined ? GATE : UP],
			.bias = lines[BIAS], .rows = words, .extent = l->rows},
		{.a = h, .b = lines[DOWN], .c = rows, .sizes = words, .bias = lines[DOWN_BIAS], .rows = words,
			.extent = l->rows},
		{.a = rows, .c = y, .sizes = lines[INDEX], .extent = l->tokens},
	};
	for (int i = 0; i < STEPS; i++) at[i].struct_size = sizeof *at;
	return queue(l->programs, stream, at, STEPS, wait);
}

// compute_layer returns y, or NULL. If the table was emptied while memory was allocated, programs may be
// another stream's.
static PyObject *compute_layer(const struct layer *l, PyObject *x, uint64_t stream,
	const uint64_t lines[TENSORS], PyObject *wait) {
	uint64_t before = clears, words, at;
	struct operand like = {0};
	if (!read_operand(x, &like, &at) || like.type > RESULTS) return NULL;
	like.stride[0] = like.shape[1], like.stride[1] = 1;
	const struct operand bytes = {.shape = {(l->size + 3) / 4}, .stride = {1}, .dims = 1, .type = FLOAT32,
		.device = like.device};
	PyObject *block = allocate_as(&bytes), *y = block ? allocate_as(&like) : NULL;
	if (!y || !read_address(block, &words) || !read_address(y, &at) || clears != before ||
		!queue_layer(l, stream, lines, words, at, wait)) Py_CLEAR(y);
	Py_XDECREF(block); // its memory is used again after the runs, on the same stream
	return y;
}

// key_of returns the key of a call in the table.
static PyObject *key_of(const struct call *c, PyObject *options) {
	return Py_BuildValue("y#O", (const char *)c, (Py_ssize_t)sizeof *c, options);
}

PyDoc_STRVAR(layer_doc, "layer(tensors, options): y of a plain call of a layer of experts, without "
	"gradients, that keep_layer()\nknows, or None.");
static PyObject *layer(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	(void)self;
	struct call call;
	uint64_t lines[TENSORS];
	if (!ready(n, 2)) return NULL;
	if (!read_call(args[0], &call, lines) || !read_stream(call.kinds[0].device, &call.stream))
		return decline();
	PyObject *key = key_of(&call, args[1]), *found = key ? PyDict_GetItemWithError(layers, key) : NULL;
	Py_XDECREF(key);
	if (!found) return decline();
	Py_INCREF(found);
	PyObject *y = compute_layer((const void *)PyBytes_AsString(PyTuple_GetItem(found, 0)),
		PyTuple_GetItem(args[0], 0), call.stream, lines, PyTuple_GetItem(found, 1));
	Py_DECREF(found);
	return y || PyErr_Occurred() ? y : Py_NewRef(Py_None);
}

PyDoc_STRVAR(keep_layer_doc, "keep_layer(tensors, options, stream, layer, wait): later calls like this one, "
	"on that stream, do what\na struct layer says, and call wait after it, unless that is None.");
static PyObject *keep_layer(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	enum { ITS_TENSORS, OPTIONS, STREAM, LAYER, WAIT, ARGS, MOST = 1024 };
	(void)self;
	struct call call;
	uint64_t lines[TENSORS];
	if (!ready(n, ARGS)) return NULL;
	if (!PyBytes_Check(args[LAYER]) || PyBytes_Size(args[LAYER]) != sizeof(struct layer))
		return PyErr_Format(PyExc_TypeError, "layer is none");
	if (!read_call(args[ITS_TENSORS], &call, lines)) return decline();
	call.stream = PyLong_AsUnsignedLongLong(args[STREAM]);
	if (PyErr_Occurred()) return NULL;
	if (PyDict_Size(layers) >= MOST) PyDict_Clear(layers);
	PyObject *key = key_of(&call, args[OPTIONS]), *value = PyTuple_Pack(2, args[LAYER], args[WAIT]);
	int failed = !key || !value || PyDict_SetItem(layers, key, value);
	Py_XDECREF(key);
	Py_XDECREF(value);
	return failed ? NULL : Py_NewRef(Py_None);
}

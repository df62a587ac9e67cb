// Whether a call is plain: nobody watches it, and its tensors are no more than that.

// positive returns whether the memory of n tensors holds them, and not their negative. Parts of complex
// numbers alone can be negative: where the types are known, they are of fp32 or fp16.
static int positive(PyObject *const *args, const struct operand *known, int n) {
	for (int i = 0; i < n; i++) {
		int part = !known || known[i].type == FLOAT32 || known[i].type == FLOAT16;
		if (part && args[i] != Py_None && truth(PyObject_CallMethodObjArgs(args[i], name.is_neg, NULL)) != 0)
			return 0;
	}
	return 1;
}

// unseen returns whether no forward mode, mode, trace, transformation or profiler watches: _watched() in
// Python.
static int unseen(void) {
	if (integer(PyObject_GetAttr(torch.forward_mode, name._current_level)) != -1 || PyErr_Occurred())
		return 0;
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

// plain returns whether arguments are tensors and no more, and nobody watches the call. Their memory may
// hold their negative.
static int plain(PyObject *const *args, PyObject *const *more) {
	return args[X] != Py_None && args[W] != Py_None && tensors(args, OPERANDS) &&
		(!more || tensors(more, SCALES)) && unseen();
}

// wants_gradients returns whether one of n tensors wants a gradient, or -1 with an exception.
static int wants_gradients(PyObject *const *of, int n) {
	int wants = 0;
	for (int i = 0; i < n && !wants; i++)
		if (of[i] != Py_None) wants = truth(PyObject_GetAttr(of[i], name.requires_grad));
	return wants;
}

// differentiable returns wants_gradients() of a call, or 0 where gradients are off.
static int differentiable(PyObject *const *args, PyObject *const *more) {
	int wants = truth(PyObject_CallNoArgs(torch.grad_enabled));
	if (wants == 1 && !(wants = wants_gradients(args, OFFS)) && !(wants = wants_gradients(args + BIAS, 1)) &&
		more)
		wants = wants_gradients(more, ZERO_X);
	return wants;
}

// What a call depends on of a tensor, as DLPack has it. All bytes count: there are none between members.
struct kind {
	int64_t shape[DIMS], stride[DIMS];
	int32_t device;
	uint8_t dims, code, bits, at; // at: address modulo ALIGN
};

// read_kind reads what DLPack can show. The address is that of the line of ALIGN bytes.
static int read_kind(PyObject *t, struct kind *k, uint64_t *address) {
	enum { FLOAT = 2 }; // bfloat16, which is never a part of complex numbers, is another
	struct view v;
	if (view(t, &v) || v.dims > DIMS || v.lanes != 1) return 0;
	if (v.code == FLOAT && !positive(&t, NULL, 1)) return 0;
	k->device = device_in(&v);
	k->dims = (uint8_t)v.dims, k->code = v.code, k->bits = v.bits;
	memcpy(k->shape, v.shape, (size_t)v.dims * sizeof *v.shape);
	memcpy(k->stride, v.stride, (size_t)v.dims * sizeof *v.stride);
	*address = address_of(&v);
	k->at = *address % ALIGN, *address -= k->at;
	return k->device != ELSEWHERE;
}

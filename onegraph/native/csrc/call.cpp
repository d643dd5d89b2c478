// Calls of executables: numpy arrays in, numpy arrays out, and one run of a plan between them.
//
// cffi cannot pass Python objects to C, so this file uses the C API of Python and numpy directly, limited to the oldest
// Python that the package supports. native/library.py gets these functions through ctypes.

#define Py_LIMITED_API 0x030A0000
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <Python.h>

#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "guard.h"
#include "parts.h"
#include "results.h"

namespace {

constexpr std::uintptr_t ALIGNMENT = 64;

// An owned reference, or none.
class Owned {
public:
    explicit Owned(PyObject *object = nullptr) : object_(object) {}
    Owned(Owned &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Owned &operator=(Owned &&other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Owned() { Py_XDECREF(object_); }

    static Owned share(PyObject *object) {
        Py_XINCREF(object);
        return Owned(object);
    }
    explicit operator bool() const { return object_ != nullptr; }
    PyObject *get() const { return object_; }
    PyArrayObject *array() const { return reinterpret_cast<PyArrayObject *>(object_); }
    PyObject *release() { return std::exchange(object_, nullptr); }

private:
    PyObject *object_;
};

// Whether the object is a numpy array and not of a derived class. The memory of a derived class, such as a masked
// array, may not be its whole meaning.
bool is_plain(PyObject *object) {
    return reinterpret_cast<PyObject *>(Py_TYPE(object)) == reinterpret_cast<PyObject *>(&PyArray_Type);
}

// The array that owns the memory of `array`, which may be a view, also through memoryviews; a borrowed reference. While
// the memory is used, the owner has a weak reference, because numpy resizes no array that has one.
PyObject *owner_of(PyObject *array) {
    while (PyObject *base = PyArray_BASE(reinterpret_cast<PyArrayObject *>(array))) {
        Owned exporter; // the memoryview holds it as well
        if (PyMemoryView_Check(base)) {
            exporter = Owned(PyObject_GetAttrString(base, "obj"));
            if (!exporter) PyErr_Clear();
            base = exporter.get();
        }
        if (!base || !PyArray_Check(base)) return array;
        array = base;
    }
    return array;
}

// An array of bytes. Without memory: no reference, and numpy's exception is set.
Owned new_memory(npy_intp size) {
    const auto room = static_cast<std::size_t>(size);
    void *block = room < onegraph::LARGE_RESULT ? nullptr : onegraph::take_result(room);
    if (!block) return Owned(PyArray_SimpleNew(1, &size, NPY_UINT8));
    const auto give = [](PyObject *capsule) {
        const auto given = reinterpret_cast<std::size_t>(PyCapsule_GetContext(capsule));
        onegraph::give_result(PyCapsule_GetPointer(capsule, nullptr), given);
    };
    Owned owner(PyCapsule_New(block, nullptr, give));
    if (!owner) {
        onegraph::give_result(block, room);
        return owner;
    }
    PyCapsule_SetContext(owner.get(), reinterpret_cast<void *>(room));
    Owned made(PyArray_SimpleNewFromData(1, &size, NPY_UINT8, block));
    if (made && PyArray_SetBaseObject(made.array(), owner.release()) < 0) return Owned();
    return made;
}

// The array of a graph input or output: of one shape, layout and data type.
struct Port {
    Owned dtype;
    std::vector<npy_intp> shape;
    std::vector<npy_intp> strides; // in bytes; empty if C-contiguous
    npy_intp size; // bytes from the first element to the end of the last element
    npy_intp over = -1; // the input whose first element may be that of this output

    bool fits(PyArrayObject *array) const {
        return reinterpret_cast<PyObject *>(PyArray_DESCR(array)) == dtype.get()
                && static_cast<std::size_t>(PyArray_NDIM(array)) == shape.size()
                && std::equal(shape.begin(), shape.end(), PyArray_DIMS(array)) && is_laid_out(array);
    }

    // The strides of axes of size 1 do not matter.
    bool is_laid_out(PyArrayObject *array) const {
        if (strides.empty()) return PyArray_IS_C_CONTIGUOUS(array);
        for (std::size_t i = 0; i < shape.size(); i++)
            if (shape[i] != 1 && PyArray_STRIDE(array, static_cast<int>(i)) != strides[i]) return false;
        return true;
    }

    // A new array whose data starts at a multiple of 64 bytes. Without memory: no reference, and numpy's exception is
    // set.
    Owned empty() const {
        Owned memory = new_memory(size + static_cast<npy_intp>(ALIGNMENT) - 1);
        if (!memory) return memory;
        const auto start = reinterpret_cast<std::uintptr_t>(PyArray_DATA(memory.array()));
        auto *data = reinterpret_cast<void *>((start + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        auto *descr = reinterpret_cast<PyArray_Descr *>(Owned::share(dtype.get()).release());
        auto *steps = strides.empty() ? nullptr : const_cast<npy_intp *>(strides.data());
        Owned made(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), shape.data(), steps, data,
                steps ? NPY_ARRAY_BEHAVED : NPY_ARRAY_CARRAY, nullptr));
        if (made && PyArray_SetBaseObject(made.array(), memory.release()) < 0) return Owned();
        return made;
    }
};

bool share_memory(PyArrayObject *one, npy_intp one_size, PyArrayObject *other, npy_intp other_size) {
    const auto a = reinterpret_cast<std::uintptr_t>(PyArray_DATA(one));
    const auto b = reinterpret_cast<std::uintptr_t>(PyArray_DATA(other));
    return a < b + static_cast<std::uintptr_t>(other_size) && b < a + static_cast<std::uintptr_t>(one_size);
}

// Raises failure(status). This runs Python code. A daemon thread may end in that code by unwinding the stack, so no
// Owned may be on the stack.
PyObject *fail(PyObject *failure, int status) {
    PyObject *error = PyObject_CallFunction(failure, "i", status);
    if (!error) return nullptr;
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error)), error);
    Py_DECREF(error);
    return nullptr;
}

// The objects that one call needs while its plan runs.
struct Run {
    std::vector<Owned> arrays; // inputs, then outputs
    std::vector<Owned> watches; // weak references to the owners of the memory, which keep the addresses valid
    std::vector<void *> addresses;
    Owned frame;
    Owned views; // a tuple with room for views of the arrays, for a program that runs in parts
    std::uintptr_t plan = 0;
};

enum class Outcome { ready, declined, raised };

struct Call {
    std::vector<Port> inputs, outputs;
    std::vector<std::size_t> slots; // of the inputs and outputs, if the program runs in parts; 0 for no slot
    PyObject *frames, *failure, *result, *parts; // arguments of quick_call, owned by its function
    Owned number; // "number"

    Outcome prepare(PyObject *given, PyObject *out, Run &run) const {
        const std::size_t n = inputs.size(), m = outputs.size();
        if (!PyTuple_Check(given) || static_cast<std::size_t>(PyTuple_Size(given)) != n) return Outcome::declined;
        run.arrays.reserve(n + m);
        run.watches.reserve(n + m);
        run.addresses.reserve(n + m);
        for (std::size_t i = 0; i < n; i++) {
            PyObject *array = PyTuple_GetItem(given, static_cast<Py_ssize_t>(i));
            if (!is_plain(array)) return Outcome::declined;
            run.arrays.push_back(Owned::share(array));
        }
        if (out != Py_None && !take(out, run.arrays)) return Outcome::declined;
        for (const Owned &array : run.arrays) {
            if (!array) continue;
            run.watches.emplace_back(PyWeakref_NewRef(owner_of(array.get()), nullptr));
            if (!run.watches.back()) return Outcome::raised;
        }
        if (parts != Py_None) run.views = Owned(PyTuple_New(static_cast<Py_ssize_t>(n + m)));
        if (parts != Py_None && !run.views) return Outcome::raised;
        // Check the arrays last: creating objects can run the garbage collector, and with it Python code.
        if (!fit(run.arrays)) return Outcome::declined;
        for (std::size_t i = 0; i < m; i++) {
            if (n + i == run.arrays.size()) run.arrays.emplace_back();
            if (run.arrays[n + i]) continue;
            run.arrays[n + i] = outputs[i].empty();
            if (run.arrays[n + i]) continue;
            PyErr_Clear(); // the slow path raises an error that names the output
            return Outcome::declined;
        }
        for (const Owned &array : run.arrays)
            run.addresses.push_back(PyArray_DATA(array.array()));
        if (frames == Py_None) return Outcome::ready;
        const Py_ssize_t last = PyList_Size(frames) - 1;
        if (last < 0) return Outcome::declined; // the slow path makes a frame
        run.frame = Owned::share(PyList_GetItem(frames, last));
        if (PyList_SetSlice(frames, last, last + 1, nullptr) < 0) return Outcome::raised;
        Owned address(PyObject_GetAttr(run.frame.get(), number.get()));
        if (!address) return Outcome::raised;
        run.plan = static_cast<std::uintptr_t>(PyLong_AsUnsignedLongLong(address.get()));
        return Outcome::ready;
    }

    // Binds the arrays, and runs the program by `parts`, which is Python code. The result as of finish.
    PyObject *run_in_parts(Run &run) const {
        for (std::size_t i = 0; i < run.arrays.size(); i++) {
            PyObject *view = PyArray_View(run.arrays[i].array(), nullptr, nullptr);
            if (!view) return nullptr;
            PyTuple_SetItem(run.views.get(), static_cast<Py_ssize_t>(i), view);
        }
        PyObject *answer = nullptr; // not Owned: see fail
        const int status = run.frame ? onegraph::place(run.plan, slots.size(), slots.data(), run.addresses.data()) : 0;
        if (!status)
            answer = PyObject_CallFunctionObjArgs(
                    parts, run.frame ? run.frame.get() : Py_None, run.views.get(), nullptr);
        if (!run.frame) return answer;
        if (!status && !answer) { // the frame is as good as before
            PyObject *kind, *value, *trace;
            PyErr_Fetch(&kind, &value, &trace);
            if (PyList_Append(frames, run.frame.get()) < 0) PyErr_Clear();
            PyErr_Restore(kind, value, trace);
            return nullptr;
        }
        Py_XDECREF(answer);
        return finish(run, status);
    }

    // The result; None if an address is misaligned, and then nothing was run.
    PyObject *finish(Run &run, int status) const {
        const std::size_t n = inputs.size(), m = outputs.size();
        if (PyList_Append(frames, run.frame.get()) < 0) return nullptr;
        if (status == onegraph_misaligned) return Owned::share(Py_None).release();
        if (status) return fail(failure, status);
        if (result == Py_None) return run.arrays[n].release();
        PyObject *values = PyTuple_New(static_cast<Py_ssize_t>(m)); // not Owned: see fail
        if (!values) return nullptr;
        for (std::size_t i = 0; i < m; i++)
            PyTuple_SetItem(values, static_cast<Py_ssize_t>(i), run.arrays[n + i].release());
        PyObject *made = PyObject_CallObject(result, values);
        Py_DECREF(values);
        return made;
    }

private:
    // Whether `out` holds an array for each output, or None for some of several; adds them to `arrays`.
    bool take(PyObject *out, std::vector<Owned> &arrays) const {
        const std::size_t m = outputs.size();
        if (m > 1) {
            // The true size: a derived class may override __len__.
            const Py_ssize_t size = PyTuple_Check(out) ? PyTuple_Size(out) : PyList_Check(out) ? PyList_Size(out) : -1;
            if (size != static_cast<Py_ssize_t>(m)) return false;
        }
        for (std::size_t i = 0; i < m; i++) {
            const auto place = static_cast<Py_ssize_t>(i);
            PyObject *object = m == 1 ? out : PyTuple_Check(out) ? PyTuple_GetItem(out, place) : PyList_GetItem(out, place);
            const bool is_free = m > 1 && object == Py_None;
            if (!is_free && !is_plain(object)) return false;
            arrays.push_back(is_free ? Owned() : Owned::share(object));
        }
        return true;
    }

    // Whether the arrays have the compiled data types, shapes and layouts. Arrays for outputs, if given, must be
    // writable and share memory with no other array but the one that they grow from.
    bool fit(const std::vector<Owned> &arrays) const {
        const std::size_t n = inputs.size();
        for (std::size_t i = 0; i < arrays.size(); i++) {
            PyArrayObject *array = arrays[i].array();
            if (!array) continue;
            if (!port(i).fits(array)) return false;
            if (i < n) continue;
            if (!PyArray_ISWRITEABLE(array)) return false;
            for (std::size_t k = 0; k < i; k++) {
                PyArrayObject *other = arrays[k].array();
                if (!other || !share_memory(array, port(i).size, other, port(k).size)) continue;
                if (port(i).over != static_cast<npy_intp>(k) || PyArray_DATA(array) != PyArray_DATA(other)) return false;
            }
        }
        return true;
    }

    const Port &port(std::size_t i) const { return i < inputs.size() ? inputs[i] : outputs[i - inputs.size()]; }
};

const char *NAME = "onegraph.call";

// The object that function_of put behind a function.
template <typename Made>
const Made *made_in(PyObject *self, const char *name) {
    return static_cast<const Made *>(PyCapsule_GetPointer(PyTuple_GetItem(self, 0), name));
}

// Returns the result of `body`. `body` can throw only the bad_alloc of a vector, which becomes a MemoryError.
template <typename Body>
auto or_no_memory(Body body, decltype(body()) failed) -> decltype(body()) {
    try {
        return body();
    } catch (const std::exception &) {
        PyErr_NoMemory();
        return failed;
    }
}

PyObject *call(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "call takes the arrays of the inputs and out");
        return nullptr;
    }
    const auto *call = made_in<Call>(self, NAME);
    auto *run = new (std::nothrow) Run;
    if (!run) return PyErr_NoMemory();
    const Outcome outcome = or_no_memory([&] { return call->prepare(arguments[0], arguments[1], *run); }, Outcome::raised);
    PyObject *answer = nullptr;
    if (outcome == Outcome::ready && call->parts != Py_None) {
        answer = call->run_in_parts(*run);
    } else if (outcome == Outcome::ready) {
        PyThreadState *state = PyEval_SaveThread();
        const int status = onegraph_plan_call(run->plan, run->addresses.size(), run->addresses.data());
        // After the interpreter has ended, this call ends a daemon thread by unwinding the stack. Nothing on the stack
        // may have a destructor that needs the interpreter.
        PyEval_RestoreThread(state);
        answer = call->finish(*run, status);
    } else if (outcome == Outcome::declined) {
        answer = Owned::share(Py_None).release();
    }
    // Not in a destructor: freeing an array that the caller has released meanwhile runs Python code; see fail.
    for (Owned &array : run->arrays)
        Py_XDECREF(array.release());
    Py_XDECREF(run->frame.release());
    Py_XDECREF(run->views.release());
    delete run;
    return answer;
}

bool read_integers(PyObject *tuple, std::vector<npy_intp> &integers) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++)
        integers.push_back(PyLong_AsSsize_t(PyTuple_GetItem(tuple, i)));
    return !PyErr_Occurred();
}

// From ((dtype, shape, strides), ...).
bool read_ports(PyObject *described, std::vector<Port> &ports) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(described); i++) {
        PyObject *dtype, *shape, *strides;
        if (!PyArg_ParseTuple(PyTuple_GetItem(described, i), "O!O!O!", &PyArrayDescr_Type, &dtype, &PyTuple_Type, &shape,
                    &PyTuple_Type, &strides))
            return false;
        Port port {Owned::share(dtype), {}, {}, PyDataType_ELSIZE(reinterpret_cast<PyArray_Descr *>(dtype))};
        if (!read_integers(shape, port.shape) || !read_integers(strides, port.strides)) return false;
        const bool is_empty = std::find(port.shape.begin(), port.shape.end(), 0) != port.shape.end();
        for (std::size_t k = 0; k < port.shape.size(); k++)
            if (port.strides.empty() || is_empty)
                port.size *= port.shape[k];
            else
                port.size += (port.shape[k] - 1) * port.strides[k];
        ports.push_back(std::move(port));
    }
    return true;
}

PyMethodDef METHOD = {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL,
        "call(arrays, out) runs a program; None where that is not one call into C"};

// An array whose memory must not move. The owner of the array could replace it.
struct Watch {
    PyArrayObject *array;
    void *data = PyArray_DATA(array);
    npy_intp size = PyArray_NBYTES(array);

    bool has_moved() const { return PyArray_DATA(array) != data || PyArray_NBYTES(array) != size; }
};

// A run whose arrays are fixed.
struct Bound {
    std::uintptr_t plan;
    PyObject *value, *failure; // arguments of bound_run, owned by its function, as are the arrays
    std::vector<Watch> watched;

    bool has_moved() const {
        return std::any_of(watched.begin(), watched.end(), [](const Watch &watch) { return watch.has_moved(); });
    }
};

const char *BOUND = "onegraph.run";

PyObject *run_bound(PyObject *self, PyObject *) {
    const auto *bound = made_in<Bound>(self, BOUND);
    if (bound->has_moved()) return fail(bound->failure, onegraph_moved);
    PyThreadState *state = PyEval_SaveThread();
    const int status = onegraph_plan_run(bound->plan);
    PyEval_RestoreThread(state); // may unwind the stack: see call
    return status ? fail(bound->failure, status) : Owned::share(bound->value).release();
}

PyMethodDef RUN = {"run", run_bound, METH_NOARGS, "run() runs on the bound arrays; returns what a call returns"};

// A Python function that owns `made` and the objects `held`. `made` itself must not own them: freeing them runs Python
// code, in which a daemon thread may end by unwinding the stack, and no C++ destructor may then be on the stack.
template <typename Made>
PyObject *function_of(
        PyMethodDef *method, const char *name, std::unique_ptr<Made> made, std::initializer_list<PyObject *> held) {
    const auto destroy = [](PyObject *capsule) {
        delete static_cast<Made *>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    };
    const int collects = PyGC_Disable(); // during the allocations below, it would run Python code too
    Owned self(PyTuple_New(1 + static_cast<Py_ssize_t>(held.size())));
    PyObject *capsule = self ? PyCapsule_New(made.get(), name, destroy) : nullptr;
    PyObject *function = nullptr;
    if (capsule) {
        made.release();
        PyTuple_SetItem(self.get(), 0, capsule);
        Py_ssize_t place = 1;
        for (PyObject *object : held)
            PyTuple_SetItem(self.get(), place++, Owned::share(object).release());
        function = PyCFunction_NewEx(method, self.get(), nullptr);
    }
    if (collects) PyGC_Enable();
    return function;
}

const char *HIDDEN = "onegraph.hidden";

// Makes a function call(arrays, out) that runs a program on a tuple of arrays. It handles the common case: numpy arrays
// with exactly the compiled shapes, strides and data types. For everything else it does nothing and returns None.
//
// inputs, outputs: tuples of (dtype, shape, strides), with empty strides for C-contiguous arrays. over: for each output
// the input that it may grow from in its memory, or -1. frames: the list of unused frames; `number` of a frame is the
// address of its plan. failure(status): makes the exception for a result of onegraph_plan_call. result(*outputs): makes
// one value from several outputs; None if there is one output. parts: None where one call into C runs the program.
// Otherwise parts(frame, arrays) runs it on views of the inputs and outputs, whose places are bound. If `frames` is None
// too, the frame is None, and its answer is that of the call. slots: of the inputs and outputs, for `parts`; 0 for none.
PyObject *quick_call(PyObject *, PyObject *arguments) noexcept {
    PyObject *inputs, *outputs, *over, *frames, *failure, *result, *parts, *slots;
    if (!PyArg_UnpackTuple(
                arguments, "quick_call", 8, 8, &inputs, &outputs, &over, &frames, &failure, &result, &parts, &slots))
        return nullptr;
    if (!PyArray_API && _import_array() < 0) return nullptr;
    try {
        auto made = std::make_unique<Call>();
        std::vector<npy_intp> sources, places;
        if (!read_ports(inputs, made->inputs) || !read_ports(outputs, made->outputs)) return nullptr;
        if (!read_integers(over, sources) || !read_integers(slots, places)) return nullptr;
        made->slots.assign(places.begin(), places.end());
        for (std::size_t i = 0; i < sources.size() && i < made->outputs.size(); i++)
            made->outputs[i].over = sources[i];
        made->frames = frames, made->failure = failure, made->result = result, made->parts = parts;
        made->number = Owned(PyUnicode_InternFromString("number"));
        if (!made->number) return nullptr;
        return function_of(&METHOD, NAME, std::move(made), {frames, failure, result, parts});
    } catch (const std::exception &) {
        return PyErr_NoMemory();
    }
}

// Makes a function run() that runs a plan on its bound arrays and returns `value`. failure(status): makes the exception
// for a result of onegraph_plan_run. owner: an object that keeps the plan and the arrays alive. watched: a tuple of the
// arrays whose memory must not move.
PyObject *bound_run(PyObject *, PyObject *arguments) noexcept {
    PyObject *plan, *value, *failure, *owner, *watched;
    if (!PyArg_UnpackTuple(arguments, "bound_run", 5, 5, &plan, &value, &failure, &owner, &watched)) return nullptr;
    if (!PyArray_API && _import_array() < 0) return nullptr;
    const auto address = static_cast<std::uintptr_t>(PyLong_AsUnsignedLongLong(plan));
    if (PyErr_Occurred()) return nullptr;
    try {
        auto made = std::make_unique<Bound>(Bound {address, value, failure, {}});
        for (Py_ssize_t i = 0; i < PyTuple_Size(watched); i++)
            made->watched.push_back({reinterpret_cast<PyArrayObject *>(PyTuple_GetItem(watched, i))});
        return function_of(&RUN, BOUND, std::move(made), {value, failure, owner, watched});
    } catch (const std::exception &) {
        return PyErr_NoMemory();
    }
}

// A capsule that owns an object and hides it from the garbage collector.
PyObject *hidden(PyObject *, PyObject *object) noexcept {
    PyObject *capsule = PyCapsule_New(object, HIDDEN, [](PyObject *self) {
        Py_DECREF(static_cast<PyObject *>(PyCapsule_GetPointer(self, HIDDEN)));
    });
    if (capsule) Py_INCREF(object);
    return capsule;
}

// Enables the garbage collector and moves all existing objects to its oldest generation, unless the program has frozen
// objects. One C function does both, so that no interrupt comes in between.
PyObject *resume_collector(PyObject *, PyObject *) noexcept {
    static bool are_frozen = false; // kept once true, because Python counts frozen objects one by one
    if (are_frozen) {
        PyGC_Enable();
        Py_RETURN_NONE;
    }
    Owned name(PyUnicode_FromString("gc"));
    Owned gc(name ? PyImport_GetModule(name.get()) : nullptr);
    Owned thaw(gc ? PyObject_GetAttrString(gc.get(), "unfreeze") : nullptr); // taken early: memory may run out
    Owned count(thaw ? PyObject_CallMethod(gc.get(), "get_freeze_count", nullptr) : nullptr);
    are_frozen = count && PyLong_AsLong(count.get()) != 0;
    if (count && !are_frozen) {
        Owned frozen(PyObject_CallMethod(gc.get(), "freeze", nullptr));
        Owned thawed(frozen ? PyObject_CallNoArgs(thaw.get()) : nullptr);
    }
    PyErr_Clear();
    PyGC_Enable();
    Py_RETURN_NONE;
}

// The address of the first element of an array. __array_interface__ of numpy 2 ends the process if memory runs out.
PyObject *address_of(PyObject *, PyObject *array) noexcept {
    if (!PyArray_API && _import_array() < 0) return nullptr;
    if (PyArray_Check(array)) return PyLong_FromVoidPtr(PyArray_DATA(reinterpret_cast<PyArrayObject *>(array)));
    PyErr_SetString(PyExc_TypeError, "address_of takes an array");
    return nullptr;
}

// array_run(kernel, arrays, types, numbers, limit): runs the kernel at this address on a list of dense arrays, or None,
// with the data types of C. Returns the status and three numbers that the kernel answers.
PyObject *array_run(PyObject *, PyObject *const *arguments, Py_ssize_t count) noexcept {
    constexpr std::size_t MOST = 16; // arrays, and their axes
    if (!PyArray_API && _import_array() < 0) return nullptr;
    if (count != 5 || !PyList_Check(arguments[1]) || !PyList_Check(arguments[2]) || !PyList_Check(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "array_run takes a kernel, three lists and a limit");
        return nullptr;
    }
    const auto *kernel = static_cast<const onegraph_array_kernel *>(PyLong_AsVoidPtr(arguments[0]));
    const long limit = PyLong_AsLong(arguments[4]);
    const Py_ssize_t n_arrays = PyList_Size(arguments[1]), n_numbers = PyList_Size(arguments[3]);
    if (PyErr_Occurred()) return nullptr;
    if (n_arrays > static_cast<Py_ssize_t>(MOST) || PyList_Size(arguments[2]) != n_arrays) {
        PyErr_SetString(PyExc_ValueError, "array_run takes up to 16 arrays, each with its data type");
        return nullptr;
    }
    onegraph_array_t arrays[MOST] = {};
    std::int64_t one = 1, answer[3] = {};
    for (Py_ssize_t i = 0; i < n_arrays; i++) {
        PyObject *array = PyList_GetItem(arguments[1], i);
        if (array == Py_None) continue;
        if (!PyArray_Check(array)) {
            PyErr_SetString(PyExc_TypeError, "array_run takes arrays");
            return nullptr;
        }
        auto *const dense = reinterpret_cast<PyArrayObject *>(array);
        static_assert(sizeof(npy_intp) == sizeof(std::int64_t));
        const int rank = PyArray_NDIM(dense);
        const auto *dims = rank ? reinterpret_cast<const std::int64_t *>(PyArray_DIMS(dense)) : &one;
        arrays[i] = {PyArray_DATA(dense), static_cast<int>(PyLong_AsLong(PyList_GetItem(arguments[2], i))), rank, dims};
    }
    int status = 0;
    try {
        std::vector<double> numbers(static_cast<std::size_t>(n_numbers));
        for (Py_ssize_t i = 0; i < n_numbers; i++)
            numbers[static_cast<std::size_t>(i)] = PyFloat_AsDouble(PyList_GetItem(arguments[3], i));
        if (PyErr_Occurred()) return nullptr;
        PyThreadState *const state = PyEval_SaveThread();
        status = onegraph_array_run(
                kernel, static_cast<std::size_t>(n_arrays), arrays, numbers.data(), static_cast<int>(limit), answer);
        PyEval_RestoreThread(state);
    } catch (const std::exception &) {
        return PyErr_NoMemory();
    }
    return Py_BuildValue("iLLL", status, static_cast<long long>(answer[0]), static_cast<long long>(answer[1]),
            static_cast<long long>(answer[2]));
}

// An array of so many bytes, which large results of calls have too.
PyObject *new_bytes(PyObject *, PyObject *size) noexcept {
    if (!PyArray_API && _import_array() < 0) return nullptr;
    const Py_ssize_t count = PyLong_AsSsize_t(size);
    if (count < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "new_bytes takes a number from 0 on");
        return nullptr;
    }
    return new_memory(count).release();
}

PyMethodDef FUNCTIONS[] = {
        {"quick_call", quick_call, METH_VARARGS, nullptr},
        {"bound_run", bound_run, METH_VARARGS, nullptr},
        {"hidden", hidden, METH_O, nullptr},
        {"resume_collector", resume_collector, METH_NOARGS, nullptr},
        {"address_of", address_of, METH_O, nullptr},
        {"new_bytes", new_bytes, METH_O, nullptr},
        {"array_run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(array_run)), METH_FASTCALL, nullptr},
};

} // namespace

// A tuple of the functions above. They are not called through ctypes, whose wrappers fail if the stack is nearly full.
extern "C" __attribute__((visibility("default"))) PyObject *onegraph_functions() noexcept {
    PyObject *functions = PyTuple_New(std::size(FUNCTIONS));
    for (std::size_t i = 0; functions && i < std::size(FUNCTIONS); i++) {
        PyObject *function = PyCFunction_NewEx(&FUNCTIONS[i], nullptr, nullptr);
        if (function)
            PyTuple_SetItem(functions, static_cast<Py_ssize_t>(i), function);
        else
            Py_CLEAR(functions);
    }
    return functions;
}

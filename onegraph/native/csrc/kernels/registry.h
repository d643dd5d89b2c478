// The kernels of the package, which steps of a plan run instead of compiled partitions. Each kernel has a file or a folder
// here, and registers itself there under a name, by which Python finds it.

#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

#include "guard.h"

namespace onegraph {

// A kernel that was made for tensors of fixed shapes, strides and data types.
class Runnable {
public:
    virtual ~Runnable() = default;

    // Runs on tensors at these addresses, on at most `threads` threads. The result shares memory with no input, unless the
    // kernel says so. A kernel that allocates memory may throw bad_alloc; its record in Python says so too.
    virtual void run(void *const *addresses, int threads) const = 0;

    // Whether steps that follow, up to one that is_end, run only where it holds().
    virtual bool is_condition() const { return false; }
    virtual bool holds() const { return true; } // of the last run
    virtual bool is_end() const { return false; }

    // Of a kernel that writes over its first input and can write back what was there: whether it is one; from now on, each
    // run keeps that or not, and what was kept before is forgotten; the last run is taken back.
    virtual bool may_take_back() const { return false; }
    virtual void keep_old(bool) const {}
    virtual void take_back() const {}
};

// What a kernel is made for: tensors, and numbers that have names.
class KernelArguments {
public:
    KernelArguments(const onegraph_kernel &kernel, const onegraph_step_t &step);

    std::size_t n_inputs, count; // of inputs, and of all tensors
    dnnl_graph_logical_tensor_t *const *tensors; // inputs, then outputs

    // A number by its name; of a word, its place in the list of words. Throws invalid_argument for unknown names.
    int number(const char *name) const;
    bool flag(const char *name) const { return number(name) != 0; }
    std::size_t size(const char *name) const { return static_cast<std::size_t>(number(name)); }
    float real(const char *name) const;

    // The numbers of the last name, if that is a list.
    const int *list() const { return code_ + n_single_; }
    std::size_t n_list() const { return n_code_ - n_single_; }

private:
    const onegraph_kernel &kernel_;
    const int *code_;
    std::size_t n_code_, n_single_;
};

// An entry of the list of all objects of a class, which finds them by their names. Objects at namespace scope enter
// themselves while the extension is loaded.
template <typename Class>
struct Named {
    explicit Named(const char *name) : name(name), next(first) { first = static_cast<const Class *>(this); }
    Named(const Named &) = delete;

    // NULL if there is none of this name.
    static const Class *named(const char *name) {
        const Class *found = first;
        while (found && std::strcmp(found->name, name) != 0)
            found = found->next;
        return found;
    }

    inline static const Class *first = nullptr; // set before any constructor runs
    const char *const name;
    const Class *const next;
};

} // namespace onegraph

// A kernel by its name.
struct onegraph_kernel : onegraph::Named<onegraph_kernel> {
    using Make = std::unique_ptr<const onegraph::Runnable> (*)(const onegraph::KernelArguments &);

    // `numbers`: the names of the numbers, after each comma one. A name is that of an s32; of an f32, if ": f32" stands
    // behind it; or of one of the words that are listed behind it, as in "of: max|min". The last one is a list of numbers
    // if "..." stands behind it; words there stand for their places in the list of words. "level" is the highest
    // instruction set: 0 any CPU, 1 AVX2, 2 AVX-512, 3 its dot products of bf16 and of bytes, 4 AMX.
    onegraph_kernel(const char *name, const char *numbers, Make make);

    const char *const numbers;
    const Make make;
};

namespace onegraph {

// Registers a kernel whose class has a constructor for KernelArguments, which throws invalid_argument for other tensors.
template <typename Class>
struct Registered : onegraph_kernel {
    explicit Registered(const char *name, const char *numbers = "") : onegraph_kernel(name, numbers, made) {}

    static std::unique_ptr<const Runnable> made(const KernelArguments &arguments) {
        return std::make_unique<Class>(arguments);
    }
};

} // namespace onegraph

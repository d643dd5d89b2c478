// Digests of the contents of files, at the speed of memory.
//
// They notice changes; they are no protection against somebody who makes two files with one digest on purpose. The
// contents are divided into chunks, whose digests Python joins with a cryptographic hash. In a chunk, 32 lanes take one
// word of 64 bits in turn. A word x changes the state of its lane to a' = rotate((a ^ x) * MULTIPLIER), which is a
// bijection, so that no change of a single word is lost; and b' = 5 b + a' sums up all states.

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "guard.h"
#include "kernels/cpu.h"

namespace onegraph {
namespace {

typedef std::uint64_t Words __attribute__((vector_size(64), aligned(8), may_alias));

constexpr std::uint64_t MULTIPLIER = 0x9e3779b185ebca87, SEED = 0xc2b2ae3d27d4eb4f;
constexpr std::size_t VECTORS = 4, STRIPE = VECTORS * sizeof(Words), PIECE = std::size_t {1} << 18;
constexpr std::size_t CHUNK = onegraph_digest_chunk, SIZE = onegraph_digest_size;
constexpr std::size_t AHEAD = 3072; // bytes between what is read and what is fetched into a cache
static_assert(SIZE == sizeof(Words) && PIECE % STRIPE == 0, "a digest is a vector, and pieces have whole stripes");

struct State {
    Words a[VECTORS], b[VECTORS];
};

// Changes a state by a word.
ONEGRAPH_INLINE void take(Words &state, const Words &word) {
    const Words product = (state ^ word) * MULTIPLIER;
    state = product << 29 | product >> 35;
}

// `size`: a multiple of STRIPE.
ONEGRAPH_INLINE void absorb(State &state, const char *data, std::size_t size) {
    State now = state;
    for (const char *end = data + size; data < end; data += STRIPE)
        for (std::size_t i = 0; i < VECTORS; i++) {
            Words word;
            ONEGRAPH_FETCH(data + i * sizeof(Words) + AHEAD);
            std::memcpy(&word, data + i * sizeof(Words), sizeof(Words));
            take(now.a[i], word);
            now.b[i] += (now.b[i] << 2) + now.a[i];
        }
    state = now;
}

void absorb_portable(State &state, const char *data, std::size_t size) {
    absorb(state, data, size);
}

ONEGRAPH_AVX2 void absorb_avx2(State &state, const char *data, std::size_t size) {
    absorb(state, data, size);
}

ONEGRAPH_AVX512 void absorb_avx512(State &state, const char *data, std::size_t size) {
    absorb(state, data, size);
}

void absorb_any(State &state, const char *data, std::size_t size) {
    const auto function = has_avx512() ? absorb_avx512 : has_avx2() ? absorb_avx2 : absorb_portable;
    function(state, data, size);
}

// Takes the digests of parts of a file, which is read piece by piece or lies in memory.
class Reader {
public:
    Reader() : piece_(new char[PIECE]) {}

    // Writes the digest of `size` bytes at `offset` of a file, or of memory; returns the number of an error, or 0.
    int digest(int descriptor, const char *memory, std::size_t offset, std::size_t size, char *result) {
        State state;
        for (std::size_t i = 0; i < VECTORS; i++)
            for (std::size_t lane = 0; lane < sizeof(Words) / 8; lane++) {
                state.a[i][lane] = SEED * (i * 8 + lane + 1);
                state.b[i][lane] = size;
            }
        std::size_t done = 0;
        if (memory && (done = size / STRIPE * STRIPE)) absorb_any(state, memory + offset, done);
        while (done < size) {
            const std::size_t some = std::min(PIECE, size - done);
            if (memory) std::memcpy(piece_.get(), memory + offset + done, some);
            else if (const int error = read(descriptor, offset + done, some)) return error;
            const std::size_t whole = (some + STRIPE - 1) / STRIPE * STRIPE;
            std::memset(piece_.get() + some, 0, whole - some);
            absorb_any(state, piece_.get(), whole);
            done += some;
        }
        Words joined {};
        for (const Words *words = state.a; words < state.b + VECTORS; words++)
            take(joined, *words);
        std::memcpy(result, &joined, SIZE);
        return 0;
    }

private:
    int read(int descriptor, std::size_t offset, std::size_t size) {
        for (std::size_t done = 0; done < size;) {
            const ssize_t got = pread(descriptor, piece_.get() + done, size - done, static_cast<off_t>(offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return got < 0 ? errno : EIO;
            done += static_cast<std::size_t>(got);
        }
        return 0;
    }

    std::unique_ptr<char[]> piece_;
};

// Gives the pages of mapped memory back to the system: they are few that somebody needs soon, and all would take memory.
void give_back(const char *memory, std::size_t size) {
    static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(memory) / page * page;
    madvise(reinterpret_cast<void *>(begin), reinterpret_cast<std::uintptr_t>(memory) + size - begin, MADV_DONTNEED);
}

int digest_chunks(
        int descriptor, const char *memory, std::size_t offset, std::size_t size, int threads, char *digests) {
    const std::size_t count = (size + CHUNK - 1) / CHUNK;
    std::atomic<std::size_t> next {0};
    std::atomic<int> failed {0};
    const auto work = [&] {
        try {
            Reader reader;
            for (std::size_t i; !failed && (i = next++) < count;) {
                const std::size_t begin = i * CHUNK, some = std::min(CHUNK, size - begin);
                if (const int error = reader.digest(descriptor, memory, offset + begin, some, digests + i * SIZE))
                    failed = error;
                if (memory) give_back(memory + offset + begin, some);
            }
        } catch (const std::bad_alloc &) {
            failed = ENOMEM;
        }
    };
    std::vector<std::thread> others;
    try {
        for (std::size_t i = 1; i < std::min<std::size_t>(count, std::max(threads, 1)); i++)
            others.emplace_back(work);
    } catch (const std::system_error &) { // the system refuses a thread: fewer do the work
    } catch (const std::bad_alloc &) {
    }
    work();
    for (std::thread &other : others)
        other.join();
    return failed;
}

int digest_paths(std::size_t count, const char *paths, char *digests, long long *changed) {
    Reader reader;
    for (std::size_t i = 0; i < count; i++, paths += std::strlen(paths) + 1, digests += SIZE) {
        const int descriptor = open(paths, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (descriptor < 0) return errno;
        struct stat status;
        // The function fstat would need glibc 2.33.
        int error = syscall(SYS_fstat, descriptor, &status) ? errno : 0;
        if (!error) error = reader.digest(descriptor, nullptr, 0, static_cast<std::size_t>(status.st_size), digests);
        close(descriptor);
        if (error) return error;
        *changed = std::max(*changed, status.st_ctim.tv_sec * 1000000000LL + status.st_ctim.tv_nsec);
    }
    return 0;
}

} // namespace
} // namespace onegraph

int onegraph_digest(int descriptor, uintptr_t memory, size_t offset, size_t size, int threads, void *digests) {
    try {
        const auto *mapped = reinterpret_cast<const char *>(memory);
        return onegraph::digest_chunks(descriptor, mapped, offset, size, threads, static_cast<char *>(digests));
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
}

int onegraph_digest_files(size_t count, const char *paths, void *digests, long long *changed) {
    try {
        return onegraph::digest_paths(count, paths, static_cast<char *>(digests), changed);
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
}

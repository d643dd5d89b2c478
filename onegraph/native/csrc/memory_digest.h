// Digests of memory.

#pragma once

#include <cstddef>
#include <cstdint>

namespace onegraph {

// 128 bits that differ for different bytes, but for a share of 2^-60 of all keys. The keys are random numbers of this
// process, so that no bytes are known to have equal digests.
struct Digest {
    std::uint64_t words[2];

    bool operator==(const Digest &other) const { return words[0] == other.words[0] && words[1] == other.words[1]; }
    bool operator!=(const Digest &other) const { return !(*this == other); }
};

Digest digest(const void *memory, std::size_t size);

} // namespace onegraph

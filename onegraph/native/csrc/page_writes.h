// Pages of memory that the system watches for writes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace onegraph {

// Memory between two addresses, in order of the addresses.
using Extents = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;

// The memory of this process that no other process and no file can change; empty if the system does not tell.
Extents memory_of_this_process();

// Whole pages that the system watches for writes, whoever makes them: the program, or the system for it. Linux 6.7 and
// later write-protects the pages, lets the first write to each of them pass, and keeps a mark of it. No signal is sent.
//
// The pages stay readable and writable. If they are given back, or the process forks, the system no longer watches them.
// Where that is possible, the pages count as written.
class PageWrites {
public:
    static constexpr std::size_t LEAST = std::size_t {64} << 10; // bytes that are worth a call of the system

    // Watches the whole pages between two addresses, if the system can and all of them are in `alone`.
    PageWrites(std::uintptr_t begin, std::uintptr_t end, const Extents &alone);
    ~PageWrites();
    PageWrites(const PageWrites &) = delete;
    PageWrites &operator=(const PageWrites &) = delete;

    std::uintptr_t begin() const { return begin_; }
    std::uintptr_t end() const { return end_; }

    // Whether the system watches the pages.
    bool is_watched() const;

    // Whether the pages may have been written since the last call of this function. If so, reads of the pages that begin
    // after the call see the writes.
    bool take_writes();

private:
    friend class Watcher;

    std::uintptr_t begin_ = 0, end_ = 0; // equal if the system does not watch
    std::uint64_t seen_ = 0, writes_ = 0; // writes_ changes when another object takes the marks of these pages
};

} // namespace onegraph

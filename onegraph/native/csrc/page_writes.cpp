#include "page_writes.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>

namespace onegraph {
namespace {

// What <linux/userfaultfd.h> and <linux/fs.h> of Linux 6.7 declare; older headers lack it.
struct Api {
    std::uint64_t api, features, ioctls;
};
struct Register {
    std::uint64_t start, length, mode, ioctls;
};
struct Part {
    std::uint64_t start, length;
};
struct Protect {
    Part part;
    std::uint64_t mode;
};
struct Region {
    std::uint64_t start, end, categories;
};
struct Scan {
    std::uint64_t size, flags, start, end, walk_end, regions, n_regions, most_pages;
    std::uint64_t inverted, all_of, any_of, returned;
};

constexpr int USER_MODE_ONLY = 1; // needs no privilege; asynchronous marks never wait for user mode
constexpr std::uint64_t API = 0xaa, UNPOPULATED = 1 << 13, ASYNCHRONOUS = 1 << 15;
constexpr std::uint64_t REGISTER_WRITES = 2, PROTECTS = 1, ONLY_ASYNCHRONOUS = 2;
constexpr std::uint64_t WRITTEN = 1 << 1, PRESENT = 1 << 3;
const auto HANDSHAKE = _IOWR(0xaa, 0x3f, Api), REGISTER = _IOWR(0xaa, 0x00, Register), UNREGISTER = _IOR(0xaa, 0x01, Part),
           PROTECT = _IOWR(0xaa, 0x06, Protect), SCAN = _IOWR('f', 16, Scan);

#if defined(SYS_userfaultfd)
constexpr long USERFAULTFD = SYS_userfaultfd;
#elif defined(__x86_64__)
constexpr long USERFAULTFD = 323;
#else
constexpr long USERFAULTFD = 282;
#endif

} // namespace

// The files by which the system tells of writes, and the objects that ask. It is never destroyed, because other static
// objects may hold pages.
class Watcher {
public:
    static Watcher &instance() {
        static Watcher *const made = new Watcher;
        return *made;
    }

    // The child of a fork reads the pages of its parent here, and might wait for a lock that no thread holds.
    bool is_usable() const { return pages_ >= 0 && process_ == getpid(); }

    bool add(PageWrites &pages) {
        const std::lock_guard<std::mutex> lock(mutex_);
        Register request {pages.begin_, pages.end_ - pages.begin_, REGISTER_WRITES, 0};
        if (ioctl(faults_, REGISTER, &request) || !protect(pages)) return false;
        all_.push_back(&pages);
        return true;
    }

    void remove(const PageWrites &pages) {
        const std::lock_guard<std::mutex> lock(mutex_);
        all_.erase(std::remove(all_.begin(), all_.end(), &pages), all_.end());
        Part part {pages.begin_, pages.end_ - pages.begin_};
        if (!overlaps(pages)) ioctl(faults_, UNREGISTER, &part);
    }

    bool take_writes(PageWrites &pages) {
        const std::lock_guard<std::mutex> lock(mutex_);
        Region region;
        Scan scan {sizeof scan, ONLY_ASYNCHRONOUS, pages.begin_, pages.end_, 0, reinterpret_cast<std::uintptr_t>(&region), 1, 1,
                PRESENT, 0, WRITTEN | PRESENT, WRITTEN | PRESENT};
        const int found = ioctl(pages_, SCAN, &scan);
        if (found > 0 && !protect(pages)) return true; // the next call finds the marks again
        const bool is_written = found != 0 || pages.seen_ != pages.writes_;
        pages.seen_ = pages.writes_;
        return is_written;
    }

private:
    Watcher() : process_(getpid()) {
        faults_ = static_cast<int>(syscall(USERFAULTFD, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY));
        if (faults_ < 0) return;
        Api request {API, UNPOPULATED | ASYNCHRONOUS, 0};
        if (!ioctl(faults_, HANDSHAKE, &request)) pages_ = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        Scan scan {};
        scan.size = sizeof scan;
        if (pages_ < 0 || ioctl(pages_, SCAN, &scan)) close_all(); // nothing between 0 and 0
    }

    void close_all() {
        close(faults_);
        if (pages_ >= 0) close(pages_);
        faults_ = pages_ = -1;
    }

    // Removes the marks of pages, and lets the other objects for these pages know of the writes.
    bool protect(const PageWrites &pages) {
        Protect request {{pages.begin_, pages.end_ - pages.begin_}, PROTECTS};
        if (ioctl(faults_, PROTECT, &request)) return false;
        for (PageWrites *other : all_)
            if (other != &pages && other->begin_ < pages.end_ && pages.begin_ < other->end_) other->writes_++;
        return true;
    }

    bool overlaps(const PageWrites &pages) const {
        return std::any_of(all_.begin(), all_.end(), [&](const PageWrites *other) {
            return other->begin_ < pages.end_ && pages.begin_ < other->end_;
        });
    }

    const pid_t process_;
    int faults_ = -1, pages_ = -1;
    std::mutex mutex_;
    std::vector<PageWrites *> all_;
};

Extents memory_of_this_process() {
    Extents found;
    std::ifstream file("/proc/self/maps");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::uintptr_t begin, end;
        char dash;
        std::string rights, offset, device, name;
        unsigned long inode;
        if (!(words >> std::hex >> begin >> dash >> end >> rights >> offset >> device >> std::dec >> inode)) return {};
        words >> name;
        const bool is_anonymous = name.empty() || name == "[heap]" || name.rfind("[anon", 0) == 0;
        if (rights.size() < 4 || rights[3] != 'p' || inode || !is_anonymous) continue;
        if (!found.empty() && found.back().second == begin)
            found.back().second = end;
        else
            found.emplace_back(begin, end);
    }
    return found;
}

PageWrites::PageWrites(std::uintptr_t begin, std::uintptr_t end, const Extents &alone) {
    static const std::uintptr_t page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    begin = (begin + page - 1) / page * page, end = end / page * page;
    const auto holds = [&](const auto &one) { return one.first <= begin && end <= one.second; };
    if (end < begin + LEAST || std::none_of(alone.begin(), alone.end(), holds)) return;
    if (!Watcher::instance().is_usable()) return;
    begin_ = begin, end_ = end;
    if (!Watcher::instance().add(*this)) begin_ = end_ = 0;
}

PageWrites::~PageWrites() {
    if (is_watched()) Watcher::instance().remove(*this);
}

bool PageWrites::is_watched() const {
    return begin_ < end_ && Watcher::instance().is_usable();
}

bool PageWrites::take_writes() {
    return !is_watched() || Watcher::instance().take_writes(*this);
}

} // namespace onegraph

// TopK: the largest or smallest elements along an axis, sorted, and their places.

#include "arrays.h"

namespace onegraph {
namespace {

// An element as an unsigned number of the order wanted, the best one first: NaN is larger than every number.
template <typename T>
struct Order {
    using Word = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, float>, std::int32_t,
            std::conditional_t<std::is_same_v<T, double>, std::int64_t, std::conditional_t<std::is_integral_v<T>, T, int>>>>;
    static constexpr Word SIGN = Word(Word(1) << (8 * sizeof(Word) - 1));

    static ONEGRAPH_INLINE Word of(T element, Word flip) {
        Word word;
        if constexpr (std::is_floating_point_v<T>) {
            element += T(0); // -0 equals 0
            std::memcpy(&word, &element, sizeof word);
            word = word & SIGN ? Word(~word) : Word(word | SIGN);
            word = is_nan(element) ? Word(~Word(0)) : word;
        } else {
            word = static_cast<Word>(element);
            if constexpr (std::is_signed_v<T>) word ^= SIGN;
        }
        return word ^ flip;
    }
};

template <typename Word>
struct Key {
    Word word;
    std::int64_t place;

    bool operator<(const Key &other) const { return word != other.word ? word < other.word : place < other.place; }
};

constexpr std::int64_t FEW = 16; // keys that are kept in order

// The best keys so far. A new one that is worse than the worst of `count` is left out.
template <typename Word>
struct Best {
    Key<Word> *keys;
    std::int64_t count, room, filled = 0;
    Word worst = Word(~Word(0)); // of the best `count` keys, once there are as many

    void add(Word word, std::int64_t place) {
        if (count <= FEW) { // in order; equal ones come behind the first
            std::int64_t at = filled < count ? filled++ : count - 1;
            for (; at > 0 && word < keys[at - 1].word; at--)
                keys[at] = keys[at - 1];
            keys[at] = {word, place};
            if (filled == count) worst = keys[count - 1].word;
            return;
        }
        keys[filled++] = {word, place};
        if (filled == room) shrink();
    }

    void shrink() {
        if (filled <= count) return;
        std::nth_element(keys, keys + count - 1, keys + filled);
        filled = count, worst = keys[count - 1].word;
    }
};

// Sorts keys that are in the order of their places, digit by digit from the last one on. `spare` has as much room.
template <typename Word>
void sort_by_digits(Key<Word> *keys, std::int64_t count, Key<Word> *spare) {
    constexpr int BITS = 11, DIGITS = 1 << BITS, WIDTH = 8 * sizeof(Word);
    Key<Word> *from = keys, *to = spare;
    for (int shift = 0; shift < WIDTH; shift += BITS) {
        std::int64_t ends[DIGITS + 1] = {};
        const auto digit = [=](const Key<Word> &key) { return (key.word >> shift) & (DIGITS - 1); };
        for (std::int64_t i = 0; i < count; i++)
            ends[digit(from[i]) + 1]++;
        for (int i = 0; i < DIGITS; i++)
            ends[i + 1] += ends[i];
        for (std::int64_t i = 0; i < count; i++)
            to[ends[digit(from[i])]++] = from[i];
        std::swap(from, to);
    }
    if (from != keys) std::copy(from, from + count, keys);
}

constexpr std::int64_t MANY = 2048; // keys, from which on digits are faster than comparisons
constexpr std::int64_t BLOCK = 32, PIECE = 1 << 15; // elements that are looked at together; that are worth a thread

// Takes the elements from `begin` to `end` of a row.
template <typename T, typename Word>
ONEGRAPH_INLINE void take(const T *row, std::int64_t stride, std::int64_t begin, std::int64_t end, Word flip, Best<Word> &best) {
    for (std::int64_t i = begin; i < end; i += BLOCK) {
        Word words[BLOCK];
        const std::int64_t some = std::min(BLOCK, end - i);
        int is_any = 0;
        if (stride == 1 && some == BLOCK)
            for (std::int64_t l = 0; l < BLOCK; l++) {
                words[l] = Order<T>::of(row[i + l], flip);
                is_any |= words[l] < best.worst;
            }
        else
            for (std::int64_t l = 0; l < some; l++) {
                words[l] = Order<T>::of(row[(i + l) * stride], flip);
                is_any |= words[l] < best.worst;
            }
        // An equal element behind the worst one has a larger place. Without enough keys each element counts.
        if (!is_any && best.filled >= best.count) continue;
        for (std::int64_t l = 0; l < some; l++)
            if (words[l] < best.worst || best.filled < best.count) best.add(words[l], i + l);
    }
}

// src; values and indices. Numbers: the axis, whether the largest are wanted.
template <typename T>
void top(const ArrayCall &call) {
    using Word = typename Order<T>::Word;
    const auto axis = static_cast<int>(call.integer(0));
    const std::int64_t size = call.dim(0, axis), inner = call.size(0, axis + 1), rows = call.size(0, 0, axis) * inner;
    const std::int64_t count = call.dim(1, axis), room = std::min(2 * count + 64, size + 1);
    const Word flip = call.flag(1) ? Word(~Word(0)) : Word(0);
    call.check(count <= size && call.size(1) == rows * count && call.size(2) == rows * count);
    if (!count || !rows) return;
    const std::int64_t lanes = std::max(call.threads, 1);
    // A few long rows are divided between the threads.
    const std::int64_t parts = rows >= lanes ? 1 : std::clamp<std::int64_t>(size / PIECE, 1, lanes), tasks = rows * parts;
    const int threads = rows * size > static_cast<std::int64_t>(SHARE) ? static_cast<int>(std::min(lanes, tasks)) : 1;
    std::vector<Key<Word>> keys(static_cast<std::size_t>((parts > 1 ? tasks : threads) * room));
    std::vector<std::int64_t> filled(static_cast<std::size_t>(tasks));
    const bool by_digits = count == size && size >= MANY; // no key is left out, so that they stay in order
    std::vector<Key<Word>> spare(static_cast<std::size_t>(by_digits ? (parts > 1 ? 1 : threads) * size : 0));
    const auto give = [&](std::int64_t row, Key<Word> *first, std::int64_t some, std::int64_t thread = 0) {
        Best<Word> best {first, count, room, some};
        best.shrink();
        if (by_digits)
            sort_by_digits(first, size, spare.data() + thread * size);
        else
            std::sort(first, first + best.filled);
        const std::int64_t begin = row / inner * count * inner + row % inner;
        const T *source = call.data<const T>(0) + row / inner * size * inner + row % inner;
        for (std::int64_t i = 0; i < count; i++) {
            call.data<T>(1)[begin + i * inner] = source[first[i].place * inner];
            call.data<std::int64_t>(2)[begin + i * inner] = first[i].place;
        }
    };
    std::atomic<std::int64_t> taken {0};
    together(threads, [&](std::size_t thread) {
        for (std::int64_t task; (task = taken.fetch_add(1)) < tasks;) {
            const std::int64_t row = task / parts, part = task % parts;
            const T *source = call.data<const T>(0) + row / inner * size * inner + row % inner;
            Key<Word> *first = keys.data() + (parts > 1 ? task : static_cast<std::int64_t>(thread)) * room;
            Best<Word> best {first, count, room};
            with_vectors([&]() ONEGRAPH_VECTORS {
                take<T>(source, inner, size * part / parts, size * (part + 1) / parts, flip, best);
            });
            if (parts == 1)
                give(row, first, best.filled, static_cast<std::int64_t>(thread));
            else
                best.shrink(), filled[static_cast<std::size_t>(task)] = best.filled;
        }
    });
    if (parts == 1) return;
    std::vector<Key<Word>> all(static_cast<std::size_t>(parts * room));
    for (std::int64_t row = 0; row < rows; row++) {
        Key<Word> *last = all.data();
        for (std::int64_t part = 0; part < parts; part++) {
            const Key<Word> *first = keys.data() + (row * parts + part) * room;
            last = std::copy(first, first + filled[static_cast<std::size_t>(row * parts + part)], last);
        }
        give(row, all.data(), last - all.data());
    }
}

const NamedKernel entry("TopK", [](const ArrayCall &call) {
    with_type(call.type(0), [&](auto zero) { top<decltype(zero)>(call); });
});

} // namespace
} // namespace onegraph

// Digests of memory at the speed of memory: Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message
// Authentication" (1999), whose hash NH multiplies 32-bit words, and a polynomial over the hashes of blocks.

#include "memory_digest.h"

#include <cstring>
#include <random>

// gcc 12 warns of values in its own header that no instruction reads.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "cpu.h"

namespace onegraph {
namespace {

using Word = std::uint32_t;
using Long = std::uint64_t;

constexpr std::size_t BLOCK = 4096, VECTOR = 64; // bytes
constexpr std::size_t AHEAD = 3072; // bytes between what is read and what is fetched into a cache
constexpr std::size_t SHIFT = 4; // words between the keys of the two hashes
constexpr Long PRIME = (Long {1} << 61) - 1;

struct Keys {
    Word words[BLOCK / sizeof(Word) + SHIFT];
    Long factors[2];

    Keys() {
        std::random_device random;
        for (Word &word : words)
            word = random();
        for (Long &factor : factors)
            factor = (Long {random()} << 29 ^ random()) % (PRIME - 1) + 1;
    }
};

const Keys &keys() {
    static const Keys made;
    return made;
}

// NH of a block, whose size is a multiple of VECTOR: the sum of (first + key) * (second + key), modulo 2^64, for the keys of two hashes.
void hash_portable(const char *memory, std::size_t size, const Word *key, Long *sums) {
    sums[0] = sums[1] = 0;
    for (std::size_t i = 0; i < size / sizeof(Word); i += 2) {
        Word pair[2];
        std::memcpy(pair, memory + i * sizeof(Word), sizeof pair);
        for (int n = 0; n < 2; n++, key += SHIFT)
            sums[n] += static_cast<Long>(pair[0] + key[i]) * static_cast<Word>(pair[1] + key[i + 1]);
        key -= 2 * SHIFT;
    }
}

#if defined(__x86_64__)
ONEGRAPH_AVX2 void hash_avx2(const char *memory, std::size_t size, const Word *key, Long *sums) {
    __m256i totals[2] = {};
    for (std::size_t i = 0; i < size; i += sizeof totals[0], key += sizeof totals[0] / sizeof(Word)) {
        ONEGRAPH_FETCH(memory + i + AHEAD);
        const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(memory + i));
        for (int n = 0; n < 2; n++) {
            const __m256i mixed = _mm256_add_epi32(
                    words, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(key + n * SHIFT)));
            totals[n] = _mm256_add_epi64(totals[n], _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32)));
        }
    }
    for (int n = 0; n < 2; n++) {
        Long parts[4];
        std::memcpy(parts, &totals[n], sizeof parts);
        sums[n] = parts[0] + parts[1] + parts[2] + parts[3];
    }
}

ONEGRAPH_AVX512 void hash_avx512(const char *memory, std::size_t size, const Word *key, Long *sums) {
    __m512i totals[2] = {};
    for (std::size_t i = 0; i < size; i += sizeof totals[0], key += sizeof totals[0] / sizeof(Word)) {
        ONEGRAPH_FETCH(memory + i + AHEAD);
        const __m512i words = _mm512_loadu_si512(memory + i);
        for (int n = 0; n < 2; n++) {
            const __m512i mixed = _mm512_add_epi32(words, _mm512_loadu_si512(key + n * SHIFT));
            totals[n] = _mm512_add_epi64(totals[n], _mm512_mul_epu32(mixed, _mm512_srli_epi64(mixed, 32)));
        }
    }
    for (int n = 0; n < 2; n++) {
        Long parts[8];
        std::memcpy(parts, &totals[n], sizeof parts);
        sums[n] = 0;
        for (const Long part : parts)
            sums[n] += part;
    }
}
#else
constexpr auto hash_avx2 = hash_portable, hash_avx512 = hash_portable;
#endif

Long reduced(unsigned __int128 value) {
    const Long sum = (static_cast<Long>(value) & PRIME) + static_cast<Long>(value >> 61);
    const Long again = (sum & PRIME) + (sum >> 61);
    return again >= PRIME ? again - PRIME : again;
}

} // namespace

Digest digest(const void *memory, std::size_t size) {
    const Keys &key = keys();
    // Asked once, as the question takes microseconds in a virtual machine; any instructions give the same digest.
    static const auto function = cpu_has_avx512() ? hash_avx512 : cpu_has_avx2() ? hash_avx2 : hash_portable;
    Digest made {{size, size}};
    const auto add = [&](const char *block, std::size_t count) {
        Long sums[2];
        function(block, count, key.words, sums);
        for (int i = 0; i < 2; i++) {
            using Wide = unsigned __int128;
            made.words[i] = reduced(Wide {made.words[i]} * key.factors[i] + (sums[i] & 0xffffffff));
            made.words[i] = reduced(Wide {made.words[i]} * key.factors[i] + (sums[i] >> 32));
        }
    };
    const char *at = static_cast<const char *>(memory);
    for (; size >= BLOCK; at += BLOCK, size -= BLOCK)
        add(at, BLOCK);
    const std::size_t whole = size / VECTOR * VECTOR;
    if (whole > 0) add(at, whole);
    if (whole < size) {
        char rest[VECTOR] = {};
        std::memcpy(rest, at + whole, size - whole);
        add(rest, sizeof rest);
    }
    return made;
}

} // namespace onegraph

// Sums of elements of a plane, each times a share: what a place between the elements is.

#pragma once

#include "arrays.h"

namespace onegraph {

// The elements and shares of some places. A place has `taps` of them; those of tap t begin at t * stride.
template <typename T>
struct Samples {
    static constexpr std::int64_t LANES = 16; // places that are computed together

    std::int32_t *places; // of elements in the plane, or -1 for an element that is 0
    T *shares;
    std::int64_t taps, stride, count;

    // Lets the places behind the last one be computed too.
    void fill() const {
        for (std::int64_t tap = 0; tap < taps; tap++)
            for (std::int64_t p = count; p < (count + LANES - 1) / LANES * LANES; p++)
                places[tap * stride + p] = -1, shares[tap * stride + p] = 0;
    }
};

// The results of one plane, element by element; of the largest products if `MOST`, else of their sums.
template <typename T, bool MOST>
void sum_portable(const Samples<T> &samples, const T *plane, T *result) {
    for (std::int64_t p = 0; p < samples.count; p++) {
        T sum = MOST ? -std::numeric_limits<T>::infinity() : T(0);
        for (std::int64_t at = p; at < samples.taps * samples.stride; at += samples.stride) {
            const T product = samples.shares[at] * (samples.places[at] < 0 ? T(0) : plane[samples.places[at]]);
            sum = !MOST ? sum + product : product > sum || is_nan(product) ? product : sum;
        }
        result[p] = sum;
    }
}

#if defined(__x86_64__)
// The sums of LANES places from `p` on.
ONEGRAPH_AVX512 inline void sum_vectors(const Samples<float> &samples, std::int64_t p, const float *plane, float *sums) {
    __m512 sum = _mm512_setzero_ps();
    for (std::int64_t at = p; at < samples.taps * samples.stride; at += samples.stride) {
        const __m512i places = _mm512_loadu_si512(samples.places + at);
        const __mmask16 exist = _mm512_cmpge_epi32_mask(places, _mm512_setzero_si512());
        const __m512 elements = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), exist, places, plane, 4);
        sum = _mm512_fmadd_ps(_mm512_loadu_ps(samples.shares + at), elements, sum);
    }
    _mm512_storeu_ps(sums, sum);
}

ONEGRAPH_AVX512 inline void sum_vectors(const Samples<double> &samples, std::int64_t p, const double *plane, double *sums) {
    for (std::int64_t half = 0; half < 16; half += 8) {
        __m512d sum = _mm512_setzero_pd();
        for (std::int64_t at = p + half; at < samples.taps * samples.stride; at += samples.stride) {
            const __m256i places = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(samples.places + at));
            const __mmask8 exist = _mm256_cmpge_epi32_mask(places, _mm256_setzero_si256());
            const __m512d elements = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), exist, places, plane, 8);
            sum = _mm512_fmadd_pd(_mm512_loadu_pd(samples.shares + at), elements, sum);
        }
        _mm512_storeu_pd(sums + half, sum);
    }
}

template <typename T>
ONEGRAPH_AVX512 void sum_avx512(const Samples<T> &samples, const T *plane, T *result) {
    constexpr std::int64_t LANES = Samples<T>::LANES;
    std::int64_t p = 0;
    for (; p + LANES <= samples.count; p += LANES)
        sum_vectors(samples, p, plane, result + p);
    if (p == samples.count) return;
    T sums[LANES];
    sum_vectors(samples, p, plane, sums);
    std::memcpy(result + p, sums, static_cast<std::size_t>(samples.count - p) * sizeof(T));
}
#endif

// result[p] = the sum of the elements of place p times their shares, or the largest product if `MOST`; for planes that lie
// `plane` elements apart, with results `row` apart. The plane has at least one element.
template <typename T, bool MOST = false>
void sample(const Samples<T> &samples, const T *source, std::int64_t plane, T *result, std::int64_t row, std::int64_t count) {
    auto function = sum_portable<T, MOST>;
#if defined(__x86_64__)
    if (!MOST && has_avx512()) {
        samples.fill();
        function = sum_avx512<T>;
    }
#endif
    for (std::int64_t channel = 0; channel < count; channel++)
        function(samples, source + channel * plane, result + channel * row);
}

} // namespace onegraph

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

template <typename T, bool MOST>
ONEGRAPH_INLINE void sum_samples(const Samples<T> &samples, const T *plane, T *result) {
    constexpr std::int64_t LANES = Samples<T>::LANES;
    for (std::int64_t p = 0; p < samples.count; p += LANES) {
        T sums[LANES];
        for (std::int64_t l = 0; l < LANES; l++)
            sums[l] = MOST ? -std::numeric_limits<T>::infinity() : T(0);
        for (std::int64_t tap = 0; tap < samples.taps; tap++) {
            const std::int32_t *at = samples.places + tap * samples.stride + p;
            const T *share = samples.shares + tap * samples.stride + p;
            for (std::int64_t l = 0; l < LANES; l++) {
                const T element = plane[at[l] < 0 ? 0 : at[l]], product = share[l] * (at[l] < 0 ? T(0) : element);
                if (MOST)
                    sums[l] = product > sums[l] || is_nan(product) ? product : sums[l];
                else
                    sums[l] += product;
            }
        }
        const std::int64_t some = std::min(LANES, samples.count - p);
        if (some == LANES)
            std::memcpy(result + p, sums, sizeof sums);
        else
            for (std::int64_t l = 0; l < some; l++)
                result[p + l] = sums[l];
    }
}

// result[p] = the sum of the elements of place p times their shares, or the largest product if `MOST`; for planes that lie
// `plane` elements apart, with results `row` apart. The plane has at least one element.
template <typename T, bool MOST = false>
void sample(const Samples<T> &samples, const T *source, std::int64_t plane, T *result, std::int64_t row, std::int64_t count) {
    samples.fill();
    with_vectors([&]() ONEGRAPH_VECTORS {
        for (std::int64_t channel = 0; channel < count; channel++)
            sum_samples<T, MOST>(samples, source + channel * plane, result + channel * row);
    });
}

} // namespace onegraph

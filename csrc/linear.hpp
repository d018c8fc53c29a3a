// The linear recurrence h_t = decay_t h_{t-1} + x_t, element by element. It is bound by memory: the
// running values stay in the L1 cache, and every other number is read or written once.
#pragma once
#include <vector>

#include "rows.hpp"
#include "scratch.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// Results of many bytes do not fit into the caches; they are written past them.
constexpr isize STREAMED_BYTES = isize{1} << 23;
constexpr isize LINE = 64;
constexpr isize PREFETCHED = isize{1} << 12;  // bytes

constexpr int IN_LINE = LINE / EIGENRNN_VECTOR_BYTES;

template <class T>
constexpr isize LINE_UNITS = LINE / static_cast<isize>(sizeof(T));

// Numbers per thread and block, so that running values stay in the L1 cache.
constexpr isize BLOCK_UNITS = 1024;

// Steps from a line to the one that it prefetches. A narrow step ends before memory has answered.
template <class T>
EIGENRNN_INLINE isize steps_ahead(isize width) {
  return larger(1, PREFETCHED / larger(1, width * static_cast<isize>(sizeof(T))));
}

template <class T>
EIGENRNN_INLINE vec<T> real_parts(vec<T> v) {
  return shuffle<T>(v, v, [](isize lane) { return lane & ~isize{1}; });
}
template <class T>
EIGENRNN_INLINE vec<T> imaginary_parts(vec<T> v) {
  return real_parts<T>(swap_parts<T>(v));
}
// -1 at real parts and 1 at imaginary ones.
template <class T>
EIGENRNN_INLINE vec<T> turn() {
  vec<T> signs;
  for (isize lane = 0; lane < LANES<T>; ++lane) signs[lane] = lane % 2 == 0 ? T(-1) : T(1);
  return signs;
}

// A factor as its products need it: one number, or a complex one as two vectors.
template <class T, bool paired>
struct Decay {
  vec<T> real, imaginary;  // the second with the signs of its products

  EIGENRNN_INLINE static Decay of(vec<T> v, bool conjugate) {
    if constexpr (!paired) return {v, v};
    const vec<T> part = imaginary_parts<T>(v);
    return {real_parts<T>(v), conjugate ? -turn<T>() * part : turn<T>() * part};
  }
  // Store and load it in the order of the columns.
  EIGENRNN_INLINE void keep(T* kept, isize j) const {
    store<T>(kept + (paired ? 2 * j : j), real);
    if constexpr (paired) store<T>(kept + 2 * j + LANES<T>, imaginary);
  }
  EIGENRNN_INLINE static Decay kept_in(const T* kept, isize j) {
    if constexpr (!paired) return {load<T>(kept + j), vec<T>{}};
    return {load<T>(kept + 2 * j), load<T>(kept + 2 * j + LANES<T>)};
  }
  EIGENRNN_INLINE vec<T> times(vec<T> v) const {
    if constexpr (!paired) return real * v;
    return real * v + imaginary * swap_parts<T>(v);
  }
};

template <class T>
EIGENRNN_INLINE void stream(T* p, vec<T> v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) _mm512_stream_ps(p, (__m512)v);
  else _mm512_stream_pd(p, (__m512d)v);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) _mm256_stream_ps(p, (__m256)v);
  else _mm256_stream_pd(p, (__m256d)v);
#else
  store<T>(p, v);
#endif
}
template <bool past, class T>
EIGENRNN_INLINE void put(T* p, vec<T> v) {
  if constexpr (past) stream<T>(p, v);
  else store<T>(p, v);
}
// Other threads see what was written past the caches.
EIGENRNN_INLINE void finish_streams() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}
template <class T>
EIGENRNN_INLINE bool aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % EIGENRNN_VECTOR_BYTES == 0;
}

// The rows [row, last_row) and the columns [column, last_column) that one thread takes at a time.
struct Tile {
  isize row, last_row, column, last_column;
  isize width() const { return last_column - column; }
};

// Contiguous rows of equal length are one row.
inline bool is_flat(const Linear& call, const Linear& grad) {
  if (call.steps.sizes != nullptr || call.steps.resets.data != nullptr) return false;
  const View* views[] = {&call.x, &call.h, &grad.h, &grad.x};
  for (const View* view : views)
    if (view->data != nullptr && view->second != call.N) return false;
  const View* gated[] = {&call.decay, &grad.decay};
  for (const View* view : gated)
    if (call.gated && view->data != nullptr && view->second != call.N) return false;
  const View* states[] = {&call.h0, &call.last, &grad.last, &grad.h0};
  for (const View* view : states)
    if (view->data != nullptr && view->first != call.N) return false;
  return true;
}

struct LinearPlan {
  Steps steps;
  isize columns, period;  // columns of a row; the decay of column j is that of j % period
  int team;
  bool by_columns;

  LinearPlan(const Linear& call, const Linear& grad, int threads, isize line)
      : steps(call.steps), columns(call.N), period(call.N) {
    if (is_flat(call, grad)) {
      columns *= steps.B;
      steps.B = columns > 0 ? 1 : 0;
    }
    const isize lines = (columns + line - 1) / line;
    by_columns = lines >= threads || lines >= steps.B;
    team = static_cast<int>(larger(1, smaller(threads, by_columns ? lines : steps.B)));
  }
  // The part of a thread.
  Tile part(int member, isize line) const {
    if (!by_columns) {
      const Share share = Share::of(steps, member, team);
      return {share.first, share.last, 0, columns};
    }
    const isize lines = (columns + line - 1) / line;
    const isize from = lines * member / team * line, to = lines * (member + 1) / team * line;
    return {0, steps.B, smaller(from, columns), smaller(to, columns)};
  }
  // Call use(tile) for blocks of a part.
  template <class Use>
  void each_tile(const Tile& all, const Use& use) const {
    for (isize c = all.column; c < all.last_column; c += BLOCK_UNITS) {
      const isize end = smaller(c + BLOCK_UNITS, all.last_column);
      const isize rows = larger(1, BLOCK_UNITS / (end - c));
      for (isize r = all.row; r < all.last_row; r += rows)
        use(Tile{r, smaller(r + rows, all.last_row), c, end});
    }
  }
};

// The running values of one tile, in rows padded to whole vectors.
template <class T>
EIGENRNN_INLINE isize padded(isize columns) {
  return vectors<T>(columns) * LANES<T>;
}

template <class T, bool paired, bool gated>
struct LinearForward {
  const Linear& call;
  const LinearPlan& plan;
  bool streamed;

  void run(const Tile& tile, T* state, T* decay) const {
    const isize width = tile.width(), wide = padded<T>(width);
    for (isize r = tile.row; r < tile.last_row; ++r) {
      T* to = state + (r - tile.row) * wide;
      std::memset(to, 0, static_cast<std::size_t>(wide) * sizeof(T));
      std::memcpy(to, at<T>(call.h0, r, 0) + tile.column, bytes(width));
    }
    if constexpr (!gated) fill(tile, decay);
    for (isize s = 0; s < plan.steps.T; ++s) {
      const isize t = plan.steps.time(s);
      const isize on = larger(tile.row, smaller(tile.last_row, plan.steps.running(s)));
      for (isize r = tile.row; r < on; ++r) {
        T* h = call.h.data == nullptr ? nullptr : at<T>(call.h, t, r) + tile.column;
        const T* factors = gated ? at<T>(call.decay, t, r) + tile.column : decay;
        if (plan.steps.begins_anew(s, r))
          std::memset(state + (r - tile.row) * wide, 0, bytes(width));
        step(at<T>(call.x, t, r) + tile.column, factors, h, state + (r - tile.row) * wide, width);
      }
      if (call.h.data != nullptr)
        for (isize r = on; r < tile.last_row; ++r)
          std::memset(at<T>(call.h, t, r) + tile.column, 0, bytes(width));
    }
    for (isize r = tile.row; r < tile.last_row; ++r)
      std::memcpy(at<T>(call.last, r, 0) + tile.column, state + (r - tile.row) * wide,
                  bytes(width));
  }

  static std::size_t bytes(isize width) { return static_cast<std::size_t>(width) * sizeof(T); }

  // The decay of every column as its products need it.
  void fill(const Tile& tile, T* decay) const {
    const T* from = static_cast<const T*>(call.decay.data);
    for (isize j = 0; j < tile.width(); j += LANES<T>) {
      vec<T> v{};
      for (isize k = 0; k < smaller(LANES<T>, tile.width() - j); ++k)
        v[k] = from[(tile.column + j + k) % plan.period];
      Decay<T, paired>::of(v, false).keep(decay, j);
    }
  }

  EIGENRNN_INLINE static vec<T> next(const T* x, const T* factors, const T* state, isize j,
                                     isize n) {
    Decay<T, paired> decay;
    if constexpr (gated) decay = Decay<T, paired>::of(load_some<T>(factors + j, n), false);
    else decay = Decay<T, paired>::kept_in(factors, j);
    return load_some<T>(x + j, n) + decay.times(load<T>(state + j));
  }

  void step(const T* x, const T* factors, T* h, T* state, isize width) const {
    if (h == nullptr) return columns<false, false>(x, factors, h, state, width);
    if (streamed && aligned(h)) return columns<true, true>(x, factors, h, state, width);
    columns<true, false>(x, factors, h, state, width);
  }

  template <bool kept, bool past>
  void columns(const T* x, const T* factors, T* h, T* state, isize width) const {
    const isize ahead = steps_ahead<T>(width);
    const isize later_x = -ahead * plan.steps.back(call.x);
    const isize later = -ahead * plan.steps.back(call.decay);
    isize j = 0;
    for (; j + LINE_UNITS<T> <= width; j += LINE_UNITS<T>) {
      __builtin_prefetch(x + j + later_x);
      if constexpr (gated) __builtin_prefetch(factors + j + later);
      vec<T> values[IN_LINE];
      for (int k = 0; k < IN_LINE; ++k) {
        values[k] = next(x, factors, state, j + k * LANES<T>, LANES<T>);
        store<T>(state + j + k * LANES<T>, values[k]);
      }
      if constexpr (kept)
        for (int k = 0; k < IN_LINE; ++k) put<past, T>(h + j + k * LANES<T>, values[k]);
    }
    for (; j < width; j += LANES<T>) {
      const isize n = smaller(LANES<T>, width - j);
      const vec<T> v = next(x, factors, state, j, n);
      store<T>(state + j, v);
      if constexpr (kept) store_some<T>(h + j, v, n);
    }
  }
};

// dx_t = g_t + conj(decay_{t+1}) dx_{t+1}, and the gradient of decay_t is dx_t conj(h_{t-1}).
template <class T, bool paired, bool gated>
struct LinearBackward {
  const Linear& call;
  const Linear& grad;
  const LinearPlan& plan;
  bool streamed;
  T* sums;  // (B, columns), the gradients of a decay without time; null: not needed

  // `carry` is what the later step sends to the states, `total` the sum of the decay's gradients.
  void run(const Tile& tile, T* carry, T* decay, T* total) const {
    const isize width = tile.width(), wide = padded<T>(width);
    const std::size_t all = static_cast<std::size_t>(wide) * sizeof(T);
    for (isize r = tile.row; r < tile.last_row; ++r) {
      T* to = carry + (r - tile.row) * wide;
      std::memset(to, 0, all);
      if (grad.last.data != nullptr)
        std::memcpy(to, at<T>(grad.last, r, 0) + tile.column, bytes(width));
      std::memset(total + (r - tile.row) * wide, 0, all);
    }
    if constexpr (!gated) fill(tile, decay);
    for (isize s = plan.steps.T; s-- > 0;) {
      const isize t = plan.steps.time(s), before = plan.steps.running(s - 1);
      const isize on = larger(tile.row, smaller(tile.last_row, plan.steps.running(s)));
      for (isize r = tile.row; r < on; ++r) {
        const isize i = (r - tile.row) * wide;
        const bool anew = plan.steps.begins_anew(s, r);
        const T* old = nullptr;
        if (grad.decay.data != nullptr && anew && gated)
          std::memset(at<T>(grad.decay, t, r) + tile.column, 0, bytes(width));
        if (grad.decay.data != nullptr && !anew)
          old = (r < before ? at<T>(call.h, plan.steps.time(s - 1), r) : at<T>(call.h0, r, 0)) +
                tile.column;
        step({grad.h.data == nullptr ? nullptr : at<T>(grad.h, t, r) + tile.column,
              gated ? at<T>(call.decay, t, r) + tile.column : decay, old,
              grad.x.data == nullptr ? nullptr : at<T>(grad.x, t, r) + tile.column,
              gated && old != nullptr ? at<T>(grad.decay, t, r) + tile.column : nullptr,
              carry + i, total + i},
             width);
        if (anew) std::memset(carry + i, 0, bytes(width));
      }
      for (isize r = on; r < tile.last_row; ++r) {
        if (grad.x.data != nullptr)
          std::memset(at<T>(grad.x, t, r) + tile.column, 0, bytes(width));
        if (gated && grad.decay.data != nullptr)
          std::memset(at<T>(grad.decay, t, r) + tile.column, 0, bytes(width));
      }
    }
    for (isize r = tile.row; r < tile.last_row; ++r) {
      const isize i = (r - tile.row) * wide;
      if (grad.h0.data != nullptr)
        std::memcpy(at<T>(grad.h0, r, 0) + tile.column, carry + i, bytes(width));
      if (!gated && sums != nullptr)
        std::memcpy(sums + r * plan.columns + tile.column, total + i, bytes(width));
    }
  }

  static std::size_t bytes(isize width) { return static_cast<std::size_t>(width) * sizeof(T); }

  void fill(const Tile& tile, T* decay) const {
    const T* from = static_cast<const T*>(call.decay.data);
    for (isize j = 0; j < tile.width(); j += LANES<T>) {
      vec<T> v{};
      for (isize k = 0; k < smaller(LANES<T>, tile.width() - j); ++k)
        v[k] = from[(tile.column + j + k) % plan.period];
      Decay<T, paired>::of(v, true).keep(decay, j);
    }
  }

  struct Row {
    const T *g, *factors, *old;
    T *dx, *ddecay, *carry, *total;
  };

  // The gradients of columns j to j + n of a step; the flags say which pointers are set.
  template <bool has_g, bool has_old>
  EIGENRNN_INLINE static vec<T> next(const Row& row, isize j, isize n, vec<T>& product) {
    vec<T> delta = load<T>(row.carry + j);
    if constexpr (has_g) delta += load_some<T>(row.g + j, n);
    if constexpr (has_old) {
      const vec<T> h = load_some<T>(row.old + j, n);
      if constexpr (paired)  // delta conj(h)
        product = real_parts<T>(delta) * (-turn<T>() * h) +
                  imaginary_parts<T>(delta) * swap_parts<T>(h);
      else
        product = delta * h;
      if constexpr (!gated) store<T>(row.total + j, load<T>(row.total + j) + product);
    }
    Decay<T, paired> decay;
    if constexpr (gated) decay = Decay<T, paired>::of(load_some<T>(row.factors + j, n), true);
    else decay = Decay<T, paired>::kept_in(row.factors, j);
    store<T>(row.carry + j, decay.times(delta));
    return delta;
  }

  template <bool has_g, bool has_dx, bool has_old>
  void through(const Row& row, isize width) const {
    const bool straight =
        (!has_dx || aligned(row.dx)) && (row.ddecay == nullptr || aligned(row.ddecay));
    if (streamed && straight) columns<true, has_g, has_dx, has_old>(row, width);
    else columns<false, has_g, has_dx, has_old>(row, width);
  }

  template <bool past, bool has_g, bool has_dx, bool has_old>
  void columns(const Row& row, isize width) const {
    const isize ahead = steps_ahead<T>(width);
    const isize before_g = ahead * plan.steps.back(grad.h);
    const isize before = ahead * plan.steps.back(call.decay);
    const isize before_h = ahead * plan.steps.back(call.h);
    isize j = 0;
    for (; j + LINE_UNITS<T> <= width; j += LINE_UNITS<T>) {
      if constexpr (has_g) __builtin_prefetch(row.g + j + before_g);
      if constexpr (has_old) __builtin_prefetch(row.old + j + before_h);
      if constexpr (gated) __builtin_prefetch(row.factors + j + before);
      vec<T> deltas[IN_LINE], products[IN_LINE];
      for (int k = 0; k < IN_LINE; ++k)
        deltas[k] = next<has_g, has_old>(row, j + k * LANES<T>, LANES<T>, products[k]);
      if constexpr (has_dx)
        for (int k = 0; k < IN_LINE; ++k) put<past, T>(row.dx + j + k * LANES<T>, deltas[k]);
      if constexpr (gated && has_old)
        for (int k = 0; k < IN_LINE; ++k)
          put<past, T>(row.ddecay + j + k * LANES<T>, products[k]);
    }
    for (; j < width; j += LANES<T>) {
      const isize n = smaller(LANES<T>, width - j);
      vec<T> product;
      const vec<T> delta = next<has_g, has_old>(row, j, n, product);
      if constexpr (has_dx) store_some<T>(row.dx + j, delta, n);
      if constexpr (gated && has_old) store_some<T>(row.ddecay + j, product, n);
    }
  }

  void step(const Row& row, isize width) const {
    const int which = (row.g != nullptr) * 4 + (row.dx != nullptr) * 2 + (row.old != nullptr);
    switch (which) {
      case 0: return through<false, false, false>(row, width);
      case 1: return through<false, false, true>(row, width);
      case 2: return through<false, true, false>(row, width);
      case 3: return through<false, true, true>(row, width);
      case 4: return through<true, false, false>(row, width);
      case 5: return through<true, false, true>(row, width);
      case 6: return through<true, true, false>(row, width);
      default: return through<true, true, true>(row, width);
    }
  }
};

// Whether results of so many numbers for each state are written past the caches.
template <class T>
bool writes_past(const Linear& call, int results) {
  return call.steps.T * call.steps.B * call.N * static_cast<isize>(sizeof(T)) * results >=
         STREAMED_BYTES;
}

template <class T, bool paired, bool gated>
void run_forward(const Linear& call, int threads) {
  const LinearPlan plan(call, {}, threads, LINE_UNITS<T>);
  struct Context {
    const Linear& call;
    const LinearPlan& plan;
  } context{call, plan};
  as_team(
      plan.team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        const isize most = BLOCK_UNITS + BLOCK_UNITS * LANES<T>;  // rows are padded
        const Scratch<T> state(most), decay(gated ? 0 : 2 * padded<T>(BLOCK_UNITS));
        const LinearForward<T, paired, gated> forward{c.call, c.plan,
                                                      writes_past<T>(c.call, 1)};
        c.plan.each_tile(c.plan.part(member, LINE_UNITS<T>), [&](const Tile& tile) {
          forward.run(tile, state.get(), decay.get());
        });
        finish_streams();
      },
      &context);
}

template <class T, bool paired, bool gated>
void run_backward(const Linear& call, const Linear& grad, int threads) {
  const LinearPlan plan(call, grad, threads, LINE_UNITS<T>);
  const bool summed = !gated && grad.decay.data != nullptr;
  const Scratch<T> sums(summed ? plan.steps.B * plan.columns : 0);
  struct Context {
    const Linear& call;
    const Linear& grad;
    const LinearPlan& plan;
    T* sums;
  } context{call, grad, plan, summed ? sums.get() : nullptr};
  as_team(
      plan.team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        const isize most = BLOCK_UNITS + BLOCK_UNITS * LANES<T>;
        const Scratch<T> carry(most), total(most);
        const Scratch<T> decay(gated ? 0 : 2 * padded<T>(BLOCK_UNITS));
        const int results = gated && c.grad.decay.data != nullptr ? 2 : 1;
        const LinearBackward<T, paired, gated> backward{
            c.call, c.grad, c.plan, writes_past<T>(c.call, results), c.sums};
        c.plan.each_tile(c.plan.part(member, LINE_UNITS<T>), [&](const Tile& tile) {
          backward.run(tile, carry.get(), decay.get(), total.get());
        });
        finish_streams();
      },
      &context);
  if (!summed) return;
  // one order of the sum for any number of threads
  T* to = static_cast<T*>(grad.decay.data);
  for (isize j = 0; j < call.N; ++j) to[j] = 0;
  for (isize r = 0; r < plan.steps.B * plan.columns / larger(1, call.N); ++r)
    for (isize j = 0; j < call.N; ++j) to[j] += sums.get()[r * call.N + j];
}

template <class T>
void linear_forward(const Linear& call, int threads) {
  if (call.paired) return call.gated ? run_forward<T, true, true>(call, threads)
                                     : run_forward<T, true, false>(call, threads);
  return call.gated ? run_forward<T, false, true>(call, threads)
                    : run_forward<T, false, false>(call, threads);
}

template <class T>
void linear_backward(const Linear& call, const Linear& grad, int threads) {
  if (call.paired) return call.gated ? run_backward<T, true, true>(call, grad, threads)
                                     : run_backward<T, true, false>(call, grad, threads);
  return call.gated ? run_backward<T, false, true>(call, grad, threads)
                    : run_backward<T, false, false>(call, grad, threads);
}

}  // namespace eigenrnn::EIGENRNN_ISA

// A layer of an LRU over one thread's rows, h_t = decay h_{t-1} + gamma U x_t and y_t = Re(V h_t) + D x_t + d, and
// its backward pass. The recurrence itself is cheap: the products of many steps are computed together.
#pragma once
#include <cmath>
#include <optional>

#include "gaps.hpp"
#include "outer.hpp"
#include "ring.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The rows of one block: enough of them to read a packed matrix once for many, few enough for the cache.
constexpr isize ROWS_OF_BLOCK = 128;
inline isize steps_per_block(const Steps& steps, isize sequences) {
  return larger(1, smaller(steps.T, ROWS_OF_BLOCK / larger(1, sequences)));
}

// A view that begins with a step and a sequence.
template <class T>
View from(const View& view, isize t, isize b) {
  if (view.data == nullptr) return view;
  return {at<T>(view, t, b), view.first, view.second};
}

// Call use(t, r, count, over_time) for runs of rows of n steps of some sequences, at equal distances in memory.
// They follow each other over time or over sequences; all rows are one run if the views are flat.
template <class Use>
void each_run(isize n, isize sequences, std::initializer_list<View> views, const Use& use) {
  bool flat = true;
  for (const View& view : views) flat = flat && view.first == sequences * view.second;
  if (flat) return use(0, 0, n * sequences, false);
  if (n < sequences)
    for (isize t = 0; t < n; ++t) use(t, 0, sequences, false);
  else
    for (isize r = 0; r < sequences; ++r) use(0, r, n, true);
}
EIGENRNN_INLINE isize apart(const View& view, bool over_time) { return over_time ? view.first : view.second; }

// The weights of a call as its products need them, those of the backward pass not transposed.
template <class T>
class LruMaps {
 public:
  LruMaps(const Lru& call, bool back, bool has_gaps)
      : back_(back),
        U_(size(call.N, call.M)),
        V_(size(call.K, call.N)),
        D_(size(call.K, call.M)),
        forward_U_(back && has_gaps ? Packed<T>::size(call.M, call.N) : 0),
        gamma_(padded(call.N)),
        real_(padded(call.K)),
        imaginary_(padded(call.K)),
        d_(call.d, call.K) {
    const isize N = call.N, M = call.M, K = call.K;
    if (has_gaps) held_units_.emplace(static_cast<const T*>(call.decay.data), K);
    const Scratch<T> signs(padded(N));
    fill(gamma_, N, [&](isize j) { return std::exp(static_cast<const T*>(call.gamma_log.data)[j % K]); });
    fill(signs, N, [&](isize j) { return j < K ? T(1) : T(-1); });
    const T* decay = static_cast<const T*>(call.decay.data);
    const bool paired = N > K;
    fill(real_, K, [&](isize j) { return decay[paired ? 2 * j : j]; });
    fill(imaginary_, K, [&](isize j) { return paired ? decay[2 * j + 1] : T(0); });
    // the axis of N is that of the columns in one pass, and that of the depth in the other
    pack_map(U_, call.U, N, M);
    if (back) scale_depth(U_, N, M, gamma_);
    else scale_columns(U_, M, N, gamma_);
    if (back && has_gaps) {
      pack(forward_U_.get(), M, N, static_cast<const T*>(call.U.data), call.U.second, call.U.first);
      scale_columns(forward_U_, M, N, gamma_);
    }
    if (call.V.data == nullptr) return;
    pack_map(V_, call.V, K, N);
    pack_map(D_, call.D, K, M);
    if (back) scale_columns(V_, K, N, signs);
    else scale_depth(V_, N, K, signs);
  }
  const T* U() const { return U_.get(); }
  // That of the forward pass, for a backward pass with gaps.
  const T* forward_U() const { return forward_U_.get(); }
  const T* V() const { return V_.get(); }
  const T* D() const { return D_.get(); }
  const T* d() const { return d_.get(); }
  const T* gamma() const { return gamma_.get(); }
  const T* real() const { return real_.get(); }
  const T* imaginary() const { return imaginary_.get(); }
  const HeldUnits<T>& held_units() const { return *held_units_; }

  static isize padded(isize count) { return vectors<T>(count) * LANES<T>; }

 private:
  isize size(isize rows, isize cols) const {
    return back_ ? Packed<T>::size(rows, cols) : Packed<T>::size(cols, rows);
  }
  // Fill whole vectors, with zeros at the end.
  template <class Value>
  static void fill(const Scratch<T>& memory, isize count, const Value& value) {
    for (isize j = 0; j < padded(count); ++j) memory.get()[j] = j < count ? value(j) : T(0);
  }
  void pack_map(const Scratch<T>& to, const View& view, isize rows, isize cols) const {
    const T* source = static_cast<const T*>(view.data);
    if (back_) pack(to.get(), rows, cols, source, view.first, view.second);
    else pack(to.get(), cols, rows, source, view.second, view.first);
  }
  // Multiply the rows or the columns of a packed matrix, of `depth` rows.
  static void scale_depth(const Scratch<T>& map, isize depth, isize cols, const Scratch<T>& factors) {
    T* packed = map.get();
    for (isize v = 0; v < vectors<T>(cols); ++v, packed += Packed<T>::panel(depth))
      for (isize k = 0; k < depth; ++k) {
        T* row = packed + k * LANES<T>;
        store<T>(row, factors.get()[k] * load<T>(row));
      }
  }
  static void scale_columns(const Scratch<T>& map, isize depth, isize cols, const Scratch<T>& factors) {
    T* packed = map.get();
    for (isize v = 0; v < vectors<T>(cols); ++v, packed += Packed<T>::panel(depth)) {
      const vec<T> factor = load<T>(factors.get() + v * LANES<T>);
      for (isize k = 0; k < depth; ++k) {
        T* row = packed + k * LANES<T>;
        store<T>(row, factor * load<T>(row));
      }
    }
  }

  bool back_;
  Scratch<T> U_, V_, D_, forward_U_, gamma_, real_, imaginary_;
  PaddedVector<T> d_;
  std::optional<HeldUnits<T>> held_units_;
};

template <class T>
struct LruForward {
  const Lru& call;
  const LruMaps<T>& maps;
  Share share;

  void run() const {
    const Steps& steps = call.steps;
    const isize N = call.N, sequences = share.last - share.first, most = steps_per_block(steps, sequences);
    if (sequences == 0) return;
    const bool kept = call.h.data != nullptr;
    const Scratch<T> memory(kept ? 0 : most * sequences * N), states(sequences * N);
    for (isize r = 0; r < sequences; ++r) copy(at<T>(call.h0, share.first + r, 0), states.get() + r * N, N);
    for (isize s = 0; s < steps.T; s += most) {
      const isize n = smaller(most, steps.T - s);
      const isize t = smaller(steps.time(s), steps.time(s + n - 1));
      const View x = from<T>(call.x, t, share.first), y = from<T>(call.y, t, share.first);
      const View h = kept ? from<T>(call.h, t, share.first) : View{memory.get(), sequences * N, N};
      each_run(n, sequences, {x, h}, [&](isize i, isize r, isize count, bool over_time) {
        const Operand<T> input{at<T>(x, i, r), apart(x, over_time), maps.U(), call.M};
        write_product<T>(&input, 1, N, count, nullptr, 0, at<T>(h, i, r), apart(h, over_time));
      });
      for (isize i = s; i < s + n; ++i) advance(i, from<T>(h, steps.time(i) - t, 0), states.get());
      if (y.data == nullptr) continue;
      each_run(n, sequences, {x, h, y}, [&](isize i, isize r, isize count, bool over_time) {
        const Operand<T> operands[] = {{at<T>(h, i, r), apart(h, over_time), maps.V(), N},
                                       {at<T>(x, i, r), apart(x, over_time), maps.D(), call.M}};
        write_product<T>(operands, 2, call.K, count, maps.d(), 0, at<T>(y, i, r), apart(y, over_time));
      });
      for (isize i = s; i < s + n; ++i)
        for (isize r = share.running(steps, i); r < sequences; ++r)
          copy(maps.d(), at<T>(y, steps.time(i) - t, r), call.K);
    }
    for (isize r = 0; r < sequences && call.last.data != nullptr; ++r)
      copy(states.get() + r * N, at<T>(call.last, share.first + r, 0), N);
  }

 private:
  static void copy(const T* source, T* to, isize count) {
    std::memcpy(to, source, static_cast<std::size_t>(count) * sizeof(T));
  }

  // Replace the mapped inputs of step s by its states. Those of sequences that have ended become zero.
  void advance(isize s, const View& h, T* states) const {
    const isize N = call.N, now = share.running(call.steps, s);
    for (isize r = 0; r < share.last - share.first; ++r) {
      T *row = at<T>(h, 0, r), *state = states + r * N;
      if (r >= now || call.steps.begins_anew(s, share.first + r))
        std::memset(r < now ? state : row, 0, static_cast<std::size_t>(N) * sizeof(T));
      if (r >= now) continue;
      if (call.dt.data != nullptr) next_after_gap(*at<T>(call.dt, call.steps.time(s), share.first + r), row, state);
      else if (call.is_complex()) next_pairs(row, state);
      else next(row, state);
    }
  }
  void next(T* row, T* state) const {
    for (isize j = 0; j < call.K; j += LANES<T>) {
      const isize n = smaller(LANES<T>, call.K - j);
      put(load<T>(maps.real() + j) * load_some<T>(state + j, n) + load_some<T>(row + j, n), j, n, row, state);
    }
  }
  void next_pairs(T* row, T* state) const {
    const isize K = call.K;
    for (isize j = 0; j < K; j += LANES<T>) {
      const isize n = smaller(LANES<T>, K - j);
      const vec<T> a = load<T>(maps.real() + j), b = load<T>(maps.imaginary() + j);
      const vec<T> real = load_some<T>(state + j, n), imaginary = load_some<T>(state + K + j, n);
      put(a * real - b * imaginary + load_some<T>(row + j, n), j, n, row, state);
      put(a * imaginary + b * real + load_some<T>(row + K + j, n), K + j, n, row, state);
    }
  }
  void next_after_gap(T dt, T* row, T* state) const {
    const isize K = call.K;
    for (isize j = 0; j < K; j += LANES<T>) {
      const isize n = smaller(LANES<T>, K - j);
      const auto [power, factor] = maps.held_units().held(j, dt);
      const ComplexVec<T> h{load_some<T>(state + j, n), load_some<T>(state + K + j, n)};
      const ComplexVec<T> u{load_some<T>(row + j, n), load_some<T>(row + K + j, n)};
      const ComplexVec<T> next = power * h + factor * u;
      put(next.real, j, n, row, state);
      put(next.imaginary, K + j, n, row, state);
    }
  }
  static void put(vec<T> v, isize j, isize n, T* row, T* state) {
    store_some<T>(row + j, v, n);
    store_some<T>(state + j, v, n);
  }
};

// One thread's part of the backward pass, with its memory. A block has one row for each step and sequence:
// of the gradients of its outputs and of its mapped inputs.
template <class T>
class LruWorker {
 public:
  LruWorker(const Lru& call, const Lru& grad, int member, int team)
      : call_(call),
        grad_(grad),
        share_(Share::of(call.steps, member, team)),
        sequences_(share_.last - share_.first),
        most_steps_(steps_per_block(call.steps, sequences_)),
        wide_(LruMaps<T>::padded(call.N)),
        wide_y_(LruMaps<T>::padded(call.K)),
        outputs_(most_steps_ * sequences_ * wide_y_),
        deltas_(most_steps_ * sequences_ * wide_),
        carry_(sequences_ * wide_),
        decay_(wide_),
        sums_(sums_size()),
        inputs_(call.dt.data == nullptr ? 0 : most_steps_ * sequences_ * wide_),
        factors_(larger(most_steps_, sequences_)) {}

  void run(const Lru&, const Lru&, const LruMaps<T>& maps) {
    clear_all(sums_, sums_size());
    clear_all(deltas_, most_steps_ * sequences_ * wide_);  // lanes past the last number stay zero
    clear_all(carry_, sequences_ * wide_);
    for (isize r = 0; r < sequences_ && grad_.last.data != nullptr; ++r)
      std::memcpy(carry_.get() + r * wide_, at<T>(grad_.last, share_.first + r, 0), bytes(call_.N));
    for (isize end = call_.steps.T; end > 0 && sequences_ > 0; end -= most_steps_) {
      const isize s = larger(0, end - most_steps_);
      block(s, end - s, maps);
    }
    for (isize r = 0; r < sequences_ && grad_.h0.data != nullptr; ++r)
      std::memcpy(at<T>(grad_.h0, share_.first + r, 0), carry_.get() + r * wide_, bytes(call_.N));
    if (call_.dt.data != nullptr) leave_logarithms(maps.held_units());
    // y has the imaginary parts of V h with a minus sign
    for (isize i = call_.K * wide_y_; i < call_.N * wide_y_; ++i) of_V()[i] = -of_V()[i];
  }

  void gather_into(const Lru&, const Lru& grad, bool first) const {
    const isize N = call_.N, M = call_.M, K = call_.K;
    gather_transposed<T>(grad.U, M, N, of_U(), wide_, first);
    gather_transposed<T>(grad.V, N, K, of_V(), wide_y_, first);
    gather_transposed<T>(grad.D, M, K, of_D(), wide_y_, first);
    T* to = static_cast<T*>(grad.decay.data);
    for (isize j = 0; j < N && to != nullptr; ++j) {
      T& sum = to[N > K ? (j < K ? 2 * j : 2 * (j - K) + 1) : j];
      sum = first ? of_decay()[j] : sum + of_decay()[j];
    }
  }

 private:
  static std::size_t bytes(isize count) { return static_cast<std::size_t>(count) * sizeof(T); }
  static void clear_all(const Scratch<T>& memory, isize count) { std::memset(memory.get(), 0, bytes(count)); }
  isize sums_size() const { return (call_.M + 1) * wide_ + (call_.N + call_.M) * wide_y_; }
  T* of_decay() const { return sums_.get(); }              // (N,)
  T* of_U() const { return sums_.get() + wide_; }          // (M, N)
  T* of_V() const { return of_U() + call_.M * wide_; }     // (N, K)
  T* of_D() const { return of_V() + call_.N * wide_y_; }   // (M, K)

  void block(isize s, isize n, const LruMaps<T>& maps) {
    const Steps& steps = call_.steps;
    const isize N = call_.N, K = call_.K, t = smaller(steps.time(s), steps.time(s + n - 1)), rows = n * sequences_;
    const View x = from<T>(call_.x, t, share_.first), h = from<T>(call_.h, t, share_.first);
    const bool has_outputs = grad_.y.data != nullptr;
    if (has_outputs) {
      read_outputs(s, n, t);
      const Operand<T> outputs{outputs_.get(), wide_y_, maps.V(), K};
      write_product<T>(&outputs, 1, N, rows, nullptr, 0, deltas_.get(), wide_);
    } else {
      clear_all(deltas_, rows * wide_);
    }
    clear_all(decay_, wide_);
    const bool has_gaps = call_.dt.data != nullptr;
    if (has_gaps)
      each_run(n, sequences_, {x}, [&](isize i, isize r, isize count, bool over_time) {
        const Operand<T> input{at<T>(x, i, r), apart(x, over_time), maps.forward_U(), call_.M};
        write_product<T>(&input, 1, N, count, nullptr, 0, inputs_.get() + (i * sequences_ + r) * wide_,
                         over_time ? sequences_ * wide_ : wide_);
      });
    for (isize i = s + n; i-- > s;) {
      const isize first = (steps.time(i) - t) * sequences_, now = share_.running(steps, i);
      for (isize r = 0; r < sequences_; ++r) {
        T* delta = deltas_.get() + (first + r) * wide_;
        if (r >= now) {
          clear_gradient_of_gap(i, r);
          continue;
        }
        const Row row = row_of(i, r, delta);
        if (has_gaps) pull_over_gap(row, inputs_.get() + (first + r) * wide_, maps.held_units());
        else pull(row, maps);
        if (row.anew) std::memset(row.carry, 0, bytes(N));
      }
    }
    // block by block, because one sum over all steps would lose digits
    for (isize j = 0; j < N; ++j) of_decay()[j] += decay_.get()[j];
    if (grad_.U.data != nullptr) add(x, call_.M, s, n, deltas_, N, wide_, of_U());
    if (grad_.V.data != nullptr && has_outputs) add(h, N, s, n, outputs_, K, wide_y_, of_V());
    if (grad_.D.data != nullptr && has_outputs) add(x, call_.M, s, n, outputs_, K, wide_y_, of_D());
    if (grad_.x.data == nullptr) return;
    const View dx = from<T>(grad_.x, t, share_.first);
    const View delta{deltas_.get(), sequences_ * wide_, wide_}, output{outputs_.get(), sequences_ * wide_y_, wide_y_};
    each_run(n, sequences_, {dx}, [&](isize i, isize r, isize count, bool over_time) {
      const Operand<T> operands[] = {{at<T>(delta, i, r), apart(delta, over_time), maps.U(), N},
                                     {at<T>(output, i, r), apart(output, over_time), maps.D(), K}};
      write_product<T>(operands, has_outputs ? 2 : 1, call_.M, count, nullptr, 0, at<T>(dx, i, r),
                       apart(dx, over_time));
    });
  }

  // Copy the gradients of the outputs of a block; they are zero where no sequence runs.
  void read_outputs(isize s, isize n, isize t) {
    for (isize i = s; i < s + n; ++i) {
      const isize time = call_.steps.time(i), now = share_.running(call_.steps, i);
      for (isize r = 0; r < sequences_; ++r) {
        T* to = outputs_.get() + ((time - t) * sequences_ + r) * wide_y_;
        std::memset(to, 0, bytes(wide_y_));
        if (r >= now) continue;
        const T* dy = at<T>(grad_.y, time, share_.first + r);
        if (grad_.y_stride == 1) std::memcpy(to, dy, bytes(call_.K));
        else
          for (isize j = 0; j < call_.K; ++j) to[j] = dy[j * grad_.y_stride];
      }
    }
  }

  // A row of a step: of one sequence.
  struct Row {
    isize time, sequence;
    bool anew;  // whether the sequence begins anew
    const T *dh, *before;
    T *delta, *carry;

    // Complete the gradient of n numbers of the state.
    vec<T> complete(isize j, isize n) const {
      vec<T> sum = load_some<T>(delta + j, n) + load_some<T>(carry + j, n);
      if (dh != nullptr) sum += load_some<T>(dh + j, n);
      return sum;
    }
  };
  Row row_of(isize s, isize r, T* delta) const {
    const isize time = call_.steps.time(s), sequence = share_.first + r;
    const T* dh = grad_.h.data == nullptr ? nullptr : at<T>(grad_.h, time, sequence);
    const T* before = r < share_.running(call_.steps, s - 1) ? at<T>(call_.h, call_.steps.time(s - 1), sequence)
                                                             : at<T>(call_.h0, sequence, 0);
    return {time, sequence, call_.steps.begins_anew(s, sequence), dh, before, delta, carry_.get() + r * wide_};
  }
  void add_to_decay(isize j, isize n, vec<T> v) const {
    store_some<T>(decay_.get() + j, load_some<T>(decay_.get() + j, n) + v, n);
  }

  // Complete the gradient of the mapped input of a row, which is that of the state too, and pass it on.
  void pull(const Row& row, const LruMaps<T>& maps) {
    const isize K = call_.K;
    for (isize j = 0; j < K; j += LANES<T>) {
      const isize n = smaller(LANES<T>, K - j);
      const vec<T> a = load<T>(maps.real() + j), b = load<T>(maps.imaginary() + j);
      const vec<T> old = load_some<T>(row.before + j, n), real = row.complete(j, n);
      store_some<T>(row.delta + j, real, n);
      if (call_.N == K) {
        if (!row.anew) add_to_decay(j, n, real * old);
        store_some<T>(row.carry + j, a * real, n);
        continue;
      }
      const vec<T> imaginary = row.complete(K + j, n), old_imaginary = load_some<T>(row.before + K + j, n);
      store_some<T>(row.delta + K + j, imaginary, n);
      if (!row.anew) {
        add_to_decay(j, n, real * old + imaginary * old_imaginary);
        add_to_decay(K + j, n, imaginary * old - real * old_imaginary);
      }
      store_some<T>(row.carry + j, a * real + b * imaginary, n);
      store_some<T>(row.carry + K + j, a * imaginary - b * real, n);
    }
  }

  // The same after a gap, where h = power h_before + factor u. The gradient of the logarithm of the decay takes the
  // place of that of the decay.
  void pull_over_gap(const Row& row, const T* u, const HeldUnits<T>& units) {
    const isize K = call_.K;
    const T dt = *at<T>(call_.dt, row.time, row.sequence);
    vec<T> of_gap{};
    for (isize j = 0; j < K; j += LANES<T>) {
      const isize n = smaller(LANES<T>, K - j);
      const auto [held, factor_slope] = units.slopes(j, dt);
      const ComplexVec<T> g{row.complete(j, n), row.complete(K + j, n)};
      const ComplexVec<T> input{load_some<T>(u + j, n), load_some<T>(u + K + j, n)};
      ComplexVec<T> old{};
      if (!row.anew) old = {load_some<T>(row.before + j, n), load_some<T>(row.before + K + j, n)};
      // the derivatives of h by the logarithm and by dt
      const ComplexVec<T> by_log = held.power * old * splat<T>(dt) + factor_slope * input;
      const ComplexVec<T> by_gap = held.power * (units.log(j) * old + units.factor_by_gap(j) * input);
      const ComplexVec<T> of_log = g * by_log.conjugate();
      add_to_decay(j, n, of_log.real);
      add_to_decay(K + j, n, of_log.imaginary);
      of_gap += g.real * by_gap.real + g.imaginary * by_gap.imaginary;
      put(g * held.factor.conjugate(), j, n, row.delta);
      put(g * held.power.conjugate(), j, n, row.carry);
    }
    if (grad_.dt.data == nullptr) return;
    T sum = 0;
    for (isize lane = 0; lane < LANES<T>; ++lane) sum += of_gap[lane];
    *at<T>(grad_.dt, row.time, row.sequence) = sum;
  }
  void put(const ComplexVec<T>& v, isize j, isize n, T* to) const {
    store_some<T>(to + j, v.real, n);
    store_some<T>(to + call_.K + j, v.imaginary, n);
  }
  // Of a sequence that does not run in step s.
  void clear_gradient_of_gap(isize s, isize r) const {
    if (grad_.dt.data != nullptr) *at<T>(grad_.dt, call_.steps.time(s), share_.first + r) = 0;
  }
  // Turn the gradients of the logarithms of the decays into those of the decays.
  void leave_logarithms(const HeldUnits<T>& units) const {
    for (isize j = 0; j < call_.K; j += LANES<T>) {
      const isize n = smaller(LANES<T>, call_.K - j);
      T* of_decays = of_decay();
      const ComplexVec<T> g{load_some<T>(of_decays + j, n), load_some<T>(of_decays + call_.K + j, n)};
      put(g * units.inverse_decay(j).conjugate(), j, n, of_decays);
    }
  }

  // Add the outer products of the rows of a view, of `cols` numbers, with those of a block.
  void add(const View& view, isize cols, isize s, isize n, const Scratch<T>& block, isize count, isize width, T* sums) {
    int found = 0;
    const auto factor = [&](isize i, isize r, isize depth, bool over_time) {
      factors_.get()[found++] = {at<T>(view, i, r), 1, apart(view, over_time), block.get() + (i * sequences_ + r) * width,
                                 over_time ? sequences_ * width : width, LANES<T>, depth};
    };
    if (call_.steps.sizes == nullptr) {
      each_run(n, sequences_, {view}, factor);
    } else {  // what lies in the padding may be no number
      const isize t = smaller(call_.steps.time(s), call_.steps.time(s + n - 1));
      for (isize i = s; i < s + n; ++i)
        if (const isize now = share_.running(call_.steps, i); now > 0) factor(call_.steps.time(i) - t, 0, now, false);
    }
    add_products(factors_.get(), found, cols, vectors<T>(count), sums, width, packed_);
  }

  const Lru& call_;
  const Lru& grad_;
  Share share_;
  isize sequences_, most_steps_, wide_, wide_y_;
  Scratch<T> outputs_, deltas_, carry_, decay_, sums_;  // decay_: the gradient of the decay in a block
  Scratch<T> inputs_;                                   // the mapped inputs of a block, with gaps
  Scratch<Factor<T>> factors_;
  Buffer<T> packed_;
};

template <class T>
void lru_forward(const Lru& call, const LruMaps<T>& maps, int threads) {
  for_shares(call.steps, 0, threads, [&](const Share& share) { LruForward<T>{call, maps, share}.run(); });
}
template <class T>
void lru_forward(const Lru& call, int threads) {
  lru_forward(call, LruMaps<T>(call, /*back=*/false, /*has_gaps=*/call.dt.data != nullptr), threads);
}

template <class T>
void lru_backward(const Lru& call, const Lru& grad, int threads) {
  const LruMaps<T> maps(call, /*back=*/true, /*has_gaps=*/call.dt.data != nullptr);
  const bool scaled = grad.gamma_log.data != nullptr || grad.U.data != nullptr;
  const Scratch<T> memory(scaled && grad.U.data == nullptr ? call.N * call.M : 0);
  Lru found = grad;
  if (scaled && grad.U.data == nullptr) found.U = {memory.get(), call.M, 1};
  run_workers<LruWorker<T>>(call, found, maps, threads);
  if (!scaled) return;
  // so far that of gamma U
  T* dgamma = static_cast<T*>(grad.gamma_log.data);
  for (isize j = 0; j < call.N; ++j) {
    T* row = at<T>(found.U, j, 0);
    T sum = 0;
    for (isize m = 0; m < call.M; ++m) {
      row[m] *= maps.gamma()[j];
      sum += row[m] * *at<T>(call.U, j, m);
    }
    if (dgamma != nullptr) dgamma[j % call.K] = j < call.K ? sum : dgamma[j % call.K] + sum;
  }
}

}  // namespace eigenrnn::EIGENRNN_ISA

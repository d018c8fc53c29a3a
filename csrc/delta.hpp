// The delta rule, in chunks of steps. One thread takes one head of one sequence through all chunks, so that
// the state and everything of a chunk stay in its cache. README.md of ops/delta derives the equations.
//
// Matrices of a chunk have rows of whole vectors. Lanes past their last column, and rows past the
// reflections of a last, shorter chunk are zero.
#pragma once
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "rows.hpp"
#include "scratch.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The triangular solve takes this many rows and vectors at a time.
constexpr int SOLVED_ROWS = 4;
constexpr int SOLVED_VECTORS = EIGENRNN_REGISTERS >= 32 ? 4 : 2;

constexpr isize ROUND = 16;  // a multiple of the lanes of every vector, and of SOLVED_ROWS
EIGENRNN_INLINE isize rounded(isize n) { return (n + ROUND - 1) / ROUND * ROUND; }

// The distance of two rows, an odd number of cache lines: rows 2^k lines apart compete for the same lines.
template <class T>
EIGENRNN_INLINE isize row_stride(isize columns) {
  constexpr isize line = 64 / static_cast<isize>(sizeof(T));
  const isize lines = (rounded(columns) + line - 1) / line;
  return (lines + 1 - lines % 2) * line;
}

// A product a b whose factor may be zero in a triangle. Of row r of the result, UP_TO reads the first
// (r + 1) * per columns of a, and FROM those from r / per on.
enum class Depths { ALL, UP_TO, FROM };
template <class T>
struct Term {
  Factor<T> factor;
  Depths depths = Depths::ALL;
  isize per = 1;
};

// out (rows of `all` vectors) = [out] + the sum of the terms. If `lower` is not zero, row r needs its first
// (r + 1) * lower columns only.
template <class T, int count>
void multiply(const Term<T> (&terms)[count], isize rows, isize all, T* out, isize stride, bool add,
              isize lower = 0) {
  if (rows == 0) return;
  const isize wide = columns(static_cast<int>(next_rows(rows)));
  for (isize v = 0; v < all; v += wide)
    for (isize r = 0, R; r < rows; r += R) {
      R = next_rows(rows - r);
      const isize end = lower == 0 ? all : smaller(all, vectors<T>((r + R) * lower));
      const isize C = smaller(wide, end - v);
      if (C <= 0) continue;
      Factor<T> factors[count];
      for (int i = 0; i < count; ++i) {
        const Term<T>& term = terms[i];
        Factor<T>& factor = factors[i];
        factor = term.factor;
        isize begin = 0;
        if (term.depths == Depths::UP_TO) factor.depth = smaller(factor.depth, (r + R) * term.per);
        if (term.depths == Depths::FROM) begin = r / term.per;
        factor.a += r * factor.row + begin * factor.step;
        factor.b += v * LANES<T> + begin * factor.deep;
        factor.depth -= begin;
      }
      Blocks<T>::all.table[R][C](factors, count, out + r * stride + v * LANES<T>, stride, add);
    }
}

// For rows 0, 1, ...: x_t += sum over s < t of N(t, s) u_s and u_t = beta_t x_t, in C vectors of columns.
template <class T>
struct Triangle {
  const T* N;
  isize row, step;
  const T* beta;
  isize next;  // from a strength to that of the next row
  T *x, *u;
  isize stride;
  isize rows;  // a multiple of SOLVED_ROWS
};
template <class T, int C>
__attribute__((noinline)) void solve_vectors(const Triangle<T>& triangle, isize column) {
  constexpr int R = SOLVED_ROWS;
  const isize stride = triangle.stride, row = triangle.row, step = triangle.step;
  T* x = triangle.x + column;
  T* u = triangle.u + column;
  for (isize r = 0; r < triangle.rows; r += R) {
    const T* N = triangle.N + r * row;
    vec<T> sums[R][C];
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sums[i][c] = load<T>(x + (r + i) * stride + c * LANES<T>);
    for (isize s = 0; s < r; ++s) {
      vec<T> earlier[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) earlier[c] = load<T>(u + s * stride + c * LANES<T>);
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) {
        const vec<T> element = splat<T>(N[i * row + s * step]);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sums[i][c] += element * earlier[c];
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const vec<T> strength = splat<T>(triangle.beta[(r + i) * triangle.next]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        const vec<T> changed = strength * sums[i][c];
        store<T>(x + (r + i) * stride + c * LANES<T>, sums[i][c]);
        store<T>(u + (r + i) * stride + c * LANES<T>, changed);
#pragma GCC unroll 4
        for (int j = i + 1; j < R; ++j)
          sums[j][c] += splat<T>(N[j * row + (r + i) * step]) * changed;
      }
    }
  }
}
template <class T>
void solve(const Triangle<T>& triangle, isize all) {
  isize v = 0;
  for (; v + SOLVED_VECTORS <= all; v += SOLVED_VECTORS)
    solve_vectors<T, SOLVED_VECTORS>(triangle, v * LANES<T>);
  for (; v < all; ++v) solve_vectors<T, 1>(triangle, v * LANES<T>);
}

// row = factor [ratios] row in its first `kept` columns, zero in the others of `all` vectors.
template <class T>
EIGENRNN_INLINE void mask_row(T* row, const T* ratios, T factor, isize kept, isize all) {
  for (isize v = 0; v < all; ++v, row += LANES<T>) {
    const isize n = larger(0, smaller(LANES<T>, kept - v * LANES<T>));
    vec<T> value = n == 0 ? vec<T>{} : splat<T>(factor) * load_some<T>(row, n);
    if (ratios != nullptr && n > 0) value *= load<T>(ratios + v * LANES<T>);
    store<T>(row, value);
  }
}

template <class T>
EIGENRNN_INLINE T total(vec<T> terms) {
  T sum = 0;
  for (isize lane = 0; lane < LANES<T>; ++lane) sum += terms[lane];
  return sum;
}
template <class T>
T dot(const T* a, const T* b, isize all) {
  vec<T> products{};
  for (isize v = 0; v < all; ++v) products += load<T>(a + v * LANES<T>) * load<T>(b + v * LANES<T>);
  return total<T>(products);
}

// to = factor from, rows of `all` vectors.
template <class T>
EIGENRNN_INLINE void scale_row(const T* from, T factor, T* to, isize all) {
  for (isize v = 0; v < all; ++v)
    store<T>(to + v * LANES<T>, splat<T>(factor) * load<T>(from + v * LANES<T>));
}

// The memory of one thread, zero at first.
template <class T>
class DeltaMemory {
 public:
  DeltaMemory(const Delta& call, bool backward)
      : memory_(count(call, backward)), next_(memory_.get()), end_(next_ + count(call, backward)) {
    std::memset(next_, 0, static_cast<std::size_t>(end_ - next_) * sizeof(T));
  }
  T* take(isize rows, isize stride) {
    T* taken = next_;
    next_ += rounded(rows) * stride;
    return taken;
  }

 private:
  static isize count(const Delta& call, bool backward) {
    const isize C = rounded(call.chunk * call.R), K = rounded(call.K), V = rounded(call.V);
    const isize k = row_stride<T>(K), v = row_stride<T>(V), c = row_stride<T>(C);
    // k, q; their transpose; N, P and ratios; the errors, changes, scaled changes and outputs; a state
    const isize forward = 2 * C * k + K * c + 3 * C * c + 4 * C * v + K * v + 5 * rounded(C);
    if (!backward) return forward;
    return forward + K * v + 2 * V * k + (V + ROUND) * c + 2 * C * c + 4 * C * v + 3 * C * k;
  }
  Scratch<T> memory_;
  T *next_, *end_;
};

// What both passes compute of a chunk.
template <class T>
struct DeltaChunk {
  const Delta& call;
  isize K = vectors<T>(call.K), V = vectors<T>(call.V);  // in vectors
  isize k_stride = row_stride<T>(call.K), v_stride = row_stride<T>(call.V);
  isize c_stride = row_stride<T>(call.chunk * call.R);
  isize b, h, length;  // the sequence, the head, and the steps of the sequence
  isize first = 0, n = 0, c = 0;  // the first step, the steps and the reflections of the chunk
  T *k, *kt, *q, *N, *P, *x, *u, *scaled, *S;
  T *ratios, *beta, *since, *until;  // the last two by step: products of decays since the chunk began
                                     // and from the next step until it ends
  T whole = 1;                       // the product of all its decays
  std::vector<double> running;

  DeltaChunk(const Delta& given, DeltaMemory<T>& memory) : call(given) {
    const isize C = given.chunk * given.R;
    k = memory.take(C, k_stride);
    q = memory.take(C, k_stride);
    kt = memory.take(given.K, c_stride);
    N = memory.take(C, c_stride);
    P = memory.take(C, c_stride);
    ratios = memory.take(C, c_stride);
    x = memory.take(C, v_stride);
    u = memory.take(C, v_stride);
    scaled = memory.take(C, v_stride);
    S = memory.take(given.K, v_stride);
    beta = memory.take(C, 1);
    since = memory.take(C, 1);
    until = memory.take(C, 1);
    running.resize(static_cast<std::size_t>(C));
  }

  bool decays() const { return call.log_decay.data != nullptr; }
  isize chunks() const { return (length + call.chunk - 1) / call.chunk; }
  // Reflections in whole blocks of the solve, and in vectors.
  isize solved() const { return (c + SOLVED_ROWS - 1) / SOLVED_ROWS * SOLVED_ROWS; }
  isize c_vectors() const { return vectors<T>(c); }

  void choose(isize item) {
    b = item / call.H;
    h = item % call.H;
    length = Share::length(call.steps, b);
  }
  // The time step of the data that is step i of the chunk.
  isize time(isize i) const { return call.steps.reverse ? length - 1 - first - i : first + i; }
  // The row of step i, of `size` numbers for each head.
  T* row(const View& view, isize i, isize size) const { return at<T>(view, time(i), b) + h * size; }
  // The state of this head in (B, H, K, V), and one of those saved.
  T* state(const View& view) const { return at<T>(view, b, 0) + h * call.K * call.V; }
  T* saved(isize chunk) const { return at<T>(call.saved, chunk, b) + h * call.K * call.V; }

  void read_state(const T* from, T* to) const {
    for (isize r = 0; r < call.K; ++r) std::memcpy(to + r * v_stride, from + r * call.V, bytes(call.V));
  }
  void write_state(const T* from, T* to) const {
    for (isize r = 0; r < call.K; ++r) std::memcpy(to + r * call.V, from + r * v_stride, bytes(call.V));
  }
  static std::size_t bytes(isize count) { return static_cast<std::size_t>(count) * sizeof(T); }

  // Read the keys, queries, strengths and decays of a chunk, and compute N.
  void begin(isize chunk, bool queries) {
    first = chunk * call.chunk;
    n = smaller(call.chunk, length - first);
    c = n * call.R;
    const isize most = rounded(call.chunk * call.R);
    for (isize i = 0; i < n; ++i) {
      const T* keys = row(call.k, i, call.R * call.K);
      const T* strengths = row(call.beta, i, call.R);
      for (isize j = 0; j < call.R; ++j) {
        std::memcpy(k + (i * call.R + j) * k_stride, keys + j * call.K, bytes(call.K));
        beta[i * call.R + j] = strengths[j];
      }
      if (queries) std::memcpy(q + i * k_stride, row(call.q, i, call.K), bytes(call.K));
    }
    std::memset(k + c * k_stride, 0, bytes((most - c) * k_stride));
    for (isize t = c; t < most; ++t) beta[t] = 0;
    if (decays()) multiply_decays();
    transpose<T>(k, k_stride, rounded(c), K * LANES<T>, kt, c_stride);
    multiply<T>({{{k, k_stride, 1, kt, c_stride, LANES<T>, call.K}}}, solved(), c_vectors(), N, c_stride,
                false, 1);
    for (isize t = 0; t < solved(); ++t) mask_row<T>(N + t * c_stride, ratio(t), -1, t, c_vectors());
  }
  // The products of decays from each reflection of the chunk to reflection t.
  const T* ratio(isize t) const { return decays() ? ratios + smaller(t / call.R, n - 1) * c_stride : nullptr; }
  T since_of(isize t) const { return decays() ? since[t / call.R] : T(1); }
  T until_of(isize t) const { return decays() ? until[t / call.R] : T(1); }

  // Products in double precision, so that neither a small logarithm nor a long chunk rounds a decay off.
  // What a normal number does not hold is zero: denormal numbers slow the products down.
  void multiply_decays() {
    constexpr double least = std::numeric_limits<T>::min();
    double product = 1;
    for (isize i = 0; i < n; ++i) {
      const double a = std::exp(static_cast<double>(*row(call.log_decay, i, 1)));
      T* to = ratios + i * c_stride;
      const isize before = i * call.R;
      product *= a;
      since[i] = product < least ? T(0) : static_cast<T>(product);
      for (isize s = 0; s < before; ++s) {
        const double ratio_ = running[static_cast<std::size_t>(s)] * a;
        running[static_cast<std::size_t>(s)] = ratio_ < least ? 0 : ratio_;
        to[s] = static_cast<T>(running[static_cast<std::size_t>(s)]);
      }
      for (isize s = before; s < before + call.R; ++s) {
        running[static_cast<std::size_t>(s)] = 1;
        to[s] = 1;
      }
    }
    whole = since[n - 1];
    for (isize i = 0; i < n; ++i) until[i] = static_cast<T>(running[static_cast<std::size_t>(i * call.R)]);
  }

  // Compute the errors x and the changes u = beta x from the state before the chunk.
  void find_changes() {
    multiply<T>({{{k, k_stride, 1, S, v_stride, LANES<T>, call.K}}}, c, V, x, v_stride, false);
    for (isize t = 0; t < solved(); ++t) {
      T* to = x + t * v_stride;
      if (t >= c) {
        std::memset(to, 0, bytes(V * LANES<T>));
        continue;
      }
      const T* v = row(call.v, t / call.R, call.R * call.V) + t % call.R * call.V;
      const vec<T> factor = splat<T>(since_of(t));
      for (isize j = 0; j < call.V; j += LANES<T>)
        store<T>(to + j, load_some<T>(v + j, smaller(LANES<T>, call.V - j)) - factor * load<T>(to + j));
    }
    solve<T>({N, c_stride, 1, beta, 1, x, u, v_stride, solved()}, V);
  }
  // Compute P, the products of queries and keys.
  void compare_queries() {
    multiply<T>({{{q, k_stride, 1, kt, c_stride, LANES<T>, call.K}}}, n, c_vectors(), P, c_stride, false,
                call.R);
    for (isize i = 0; i < n; ++i)
      mask_row<T>(P + i * c_stride, ratio(i * call.R), 1, (i + 1) * call.R, c_vectors());
  }
  // The changes as they are at the end of the chunk.
  const T* final_changes() {
    if (!decays()) return u;
    for (isize t = 0; t < c; ++t) scale_row<T>(u + t * v_stride, until_of(t), scaled + t * v_stride, V);
    return scaled;
  }
  // S = [whole] S.
  void decay(T* state_) const {
    if (!decays()) return;
    for (isize r = 0; r < call.K; ++r) scale_row<T>(state_ + r * v_stride, whole, state_ + r * v_stride, V);
  }
};

template <class T>
struct DeltaForward {
  DeltaMemory<T> memory;
  DeltaChunk<T> chunk;
  T* o;

  explicit DeltaForward(const Delta& call)
      : memory(call, false), chunk(call, memory), o(memory.take(call.chunk, chunk.v_stride)) {}

  void run(isize item) {
    const Delta& call = chunk.call;
    const bool outputs = call.o.data != nullptr, saves = call.saved.data != nullptr;
    const isize V = chunk.V, stride = chunk.v_stride;
    chunk.choose(item);
    chunk.read_state(chunk.state(call.S0), chunk.S);
    for (isize i = 0; i < chunk.chunks(); ++i) {
      if (saves) chunk.write_state(chunk.S, chunk.saved(i));
      chunk.begin(i, outputs);
      chunk.find_changes();
      if (outputs) {
        chunk.compare_queries();
        write_outputs();
      }
      const T* u = chunk.final_changes();
      chunk.decay(chunk.S);
      multiply<T>({{{chunk.k, 1, chunk.k_stride, u, stride, LANES<T>, chunk.c}}}, call.K, V, chunk.S, stride,
                  true);
    }
    chunk.write_state(chunk.S, chunk.state(call.S_n));
    if (!outputs) return;
    for (isize t = chunk.length; t < call.steps.T; ++t)
      std::memset(at<T>(call.o, t, chunk.b) + chunk.h * call.V, 0, chunk.bytes(call.V));
  }

  void write_outputs() {
    const isize stride = chunk.v_stride, V = chunk.V;
    const Term<T> of_state{{chunk.q, chunk.k_stride, 1, chunk.S, stride, LANES<T>, chunk.call.K}};
    const Term<T> of_changes{{chunk.P, chunk.c_stride, 1, chunk.u, stride, LANES<T>, chunk.c},
                             Depths::UP_TO, chunk.call.R};
    if (chunk.decays()) {
      multiply<T>({of_state}, chunk.n, V, o, stride, false);
      for (isize i = 0; i < chunk.n; ++i) scale_row<T>(o + i * stride, chunk.since[i], o + i * stride, V);
      multiply<T>({of_changes}, chunk.n, V, o, stride, true);
    } else {
      multiply<T>({of_state, of_changes}, chunk.n, V, o, stride, false);
    }
    for (isize i = 0; i < chunk.n; ++i)
      std::memcpy(chunk.row(chunk.call.o, i, chunk.call.V), o + i * stride, chunk.bytes(chunk.call.V));
  }
};

// From the last chunk to the first. `D` is the gradient of the state after the chunk, then of that before.
// With S the state before, the gradients are those of
//   x = v - since k S + N u, u = beta x, o = since q S + P u, S' = whole S + k^T (until u).
template <class T>
struct DeltaBackward {
  DeltaMemory<T> memory;
  DeltaChunk<T> chunk;
  const Delta& grad;
  T *D, *dt, *st;          // (K, V) and the transposes of D and S, (V, K)
  T* ut;                   // the transpose of the changes
  T *dN, *dP;
  T *g, *g_scaled;         // the gradients of the outputs, and times `since`
  T *du, *dv;              // those of the changes, and of the values, (C, V)
  T *dq, *dk, *dk_next;    // those of the queries, of the keys, and of the keys through the state after the chunk
  T* dv_scaled;            // -since dv
  T* pairs;                // see `find_pairs`
  // By step: the gradient of the logarithm of its decay; what it and the later steps read of the state
  // before the chunk, and what it and the earlier ones write to the state after it, times the gradients.
  std::vector<double> slopes, reads, writes;

  DeltaBackward(const Delta& call, const Delta& given)
      : memory(call, true), chunk(call, memory), grad(given) {
    const isize C = call.chunk * call.R;
    const isize k = chunk.k_stride, v = chunk.v_stride, c = chunk.c_stride;
    D = memory.take(call.K, v);
    dt = memory.take(call.V, k);
    st = memory.take(call.V, k);
    ut = memory.take(call.V, c);
    dN = memory.take(C, c);
    dP = memory.take(C, c);
    g = memory.take(C, v);
    g_scaled = memory.take(C, v);
    du = memory.take(C, v);
    dv = memory.take(C, v);
    dv_scaled = memory.take(C, v);
    dq = memory.take(C, k);
    dk = memory.take(C, k);
    dk_next = memory.take(C, k);
    pairs = memory.take(1, c);
    slopes.resize(static_cast<std::size_t>(call.chunk));
    reads.resize(static_cast<std::size_t>(call.chunk));
    writes.resize(static_cast<std::size_t>(call.chunk));
  }
  bool finds_slopes() const { return grad.log_decay.data != nullptr; }

  void run(isize item) {
    const Delta& call = chunk.call;
    chunk.choose(item);
    if (grad.S_n.data == nullptr) std::memset(D, 0, chunk.bytes(call.K * chunk.v_stride));
    else chunk.read_state(chunk.state(grad.S_n), D);
    for (isize i = chunk.chunks(); i-- > 0;) {
      chunk.read_state(chunk.saved(i), chunk.S);
      chunk.begin(i, true);
      chunk.find_changes();
      chunk.compare_queries();
      read_gradient();
      find_value_gradients();
      find_products();
      find_query_gradients();
      find_key_gradients();
      if (finds_slopes()) find_decay_gradients();
      write_gradients();
      carry();
    }
    if (grad.S0.data != nullptr) chunk.write_state(D, chunk.state(grad.S0));
    for (isize t = chunk.length; t < call.steps.T; ++t) {
      clear_row(grad.q, t, call.K);
      clear_row(grad.k, t, call.R * call.K);
      clear_row(grad.v, t, call.R * call.V);
      clear_row(grad.beta, t, call.R);
      clear_row(grad.log_decay, t, 1);
    }
  }

  void clear_row(const View& view, isize t, isize size) const {
    if (view.data == nullptr) return;
    std::memset(at<T>(view, t, chunk.b) + chunk.h * size, 0, chunk.bytes(size));
  }

  void read_gradient() {
    const isize stride = chunk.v_stride;
    for (isize i = 0; i < chunk.n; ++i) {
      T* to = g + i * stride;
      if (grad.o.data != nullptr)
        std::memcpy(to, chunk.row(grad.o, i, chunk.call.V), chunk.bytes(chunk.call.V));
      if (chunk.decays()) scale_row<T>(to, chunk.since[i], g_scaled + i * stride, chunk.V);
    }
  }
  const T* scaled_gradient() const { return chunk.decays() ? g_scaled : g; }

  // du = P^T g + until k D, then the triangle from the last row to the first.
  void find_value_gradients() {
    const isize c = chunk.c_stride, stride = chunk.v_stride, V = chunk.V, rows = chunk.solved();
    const Term<T> of_state{{chunk.k, chunk.k_stride, 1, D, stride, LANES<T>, chunk.call.K}};
    const Term<T> of_outputs{{chunk.P, 1, c, g, stride, LANES<T>, chunk.n}, Depths::FROM, chunk.call.R};
    if (chunk.decays()) {
      multiply<T>({of_state}, chunk.c, V, du, stride, false);
      for (isize t = 0; t < chunk.c; ++t) scale_row<T>(du + t * stride, chunk.until_of(t), du + t * stride, V);
      multiply<T>({of_outputs}, chunk.c, V, du, stride, true);
    } else {
      multiply<T>({of_state, of_outputs}, chunk.c, V, du, stride, false);
    }
    for (isize t = chunk.c; t < rows; ++t) std::memset(du + t * stride, 0, chunk.bytes(stride));
    const isize last = rows - 1;
    solve<T>({chunk.N + last * c + last, -1, -c, chunk.beta + last, -1, du + last * stride, dv + last * stride,
              -stride, rows},
             V);
    for (isize t = 0; t < chunk.c; ++t)
      scale_row<T>(dv + t * stride, -chunk.since_of(t), dv_scaled + t * stride, V);
  }

  // dP = g u^T and dN = -dv u^T, times the ratios of decays: the gradients of the products of rows.
  void find_products() {
    const isize c = chunk.c_stride, stride = chunk.v_stride, wide = chunk.c_vectors(), R = chunk.call.R;
    transpose<T>(chunk.u, stride, rounded(chunk.c), chunk.V * LANES<T>, ut, c);
    multiply<T>({{{g, stride, 1, ut, c, LANES<T>, chunk.call.V}}}, chunk.n, wide, dP, c, false, R);
    multiply<T>({{{dv, stride, 1, ut, c, LANES<T>, chunk.call.V}}}, chunk.c, wide, dN, c, false, 1);
    if (finds_slopes()) find_pairs();
    for (isize i = 0; i < chunk.n; ++i)
      mask_row<T>(dP + i * c, chunk.ratio(i * R), 1, (i + 1) * R, wide);
    for (isize t = 0; t < chunk.c; ++t) mask_row<T>(dN + t * c, chunk.ratio(t), -1, t, wide);
    transpose<T>(chunk.S, stride, rounded(chunk.call.K), chunk.V * LANES<T>, st, chunk.k_stride);
    transpose<T>(D, stride, rounded(chunk.call.K), chunk.V * LANES<T>, dt, chunk.k_stride);
  }

  void find_query_gradients() {
    const isize k = chunk.k_stride, stride = chunk.v_stride;
    const Term<T> of_state{{scaled_gradient(), stride, 1, st, k, LANES<T>, chunk.call.V}};
    const Term<T> of_keys{{dP, chunk.c_stride, 1, chunk.k, k, LANES<T>, chunk.c}, Depths::UP_TO,
                          chunk.call.R};
    if (!finds_slopes()) {
      multiply<T>({of_state, of_keys}, chunk.n, chunk.K, dq, k, false);
      return;
    }
    multiply<T>({of_state}, chunk.n, chunk.K, dq, k, false);
    for (isize i = 0; i < chunk.n; ++i)
      reads[static_cast<std::size_t>(i)] = static_cast<double>(dot<T>(chunk.q + i * k, dq + i * k, chunk.K));
    multiply<T>({of_keys}, chunk.n, chunk.K, dq, k, true);
  }

  void find_key_gradients() {
    const isize k = chunk.k_stride, c = chunk.c_stride, stride = chunk.v_stride, C = chunk.c, K = chunk.K;
    const isize depth = chunk.call.V;
    const Term<T> of_state{{dv_scaled, stride, 1, st, k, LANES<T>, depth}};
    const Term<T> of_earlier_keys{{dN, c, 1, chunk.k, k, LANES<T>, C}, Depths::UP_TO};
    const Term<T> of_next_state{{chunk.final_changes(), stride, 1, dt, k, LANES<T>, depth}};
    const Term<T> of_queries{{dP, 1, c, chunk.q, k, LANES<T>, chunk.n}, Depths::FROM, chunk.call.R};
    const Term<T> of_later_keys{{dN, 1, c, chunk.k, k, LANES<T>, C}, Depths::FROM};
    if (!finds_slopes()) {
      multiply<T>({of_state, of_earlier_keys, of_next_state, of_queries, of_later_keys}, C, K, dk, k, false);
      return;
    }
    multiply<T>({of_state}, C, K, dk, k, false);
    multiply<T>({of_next_state}, C, K, dk_next, k, false);
    for (isize i = 0; i < chunk.n; ++i) {
      double& written = writes[static_cast<std::size_t>(i)];
      written = 0;
      for (isize t = i * chunk.call.R; t < (i + 1) * chunk.call.R; ++t) {
        const T* key = chunk.k + t * k;
        reads[static_cast<std::size_t>(i)] += static_cast<double>(dot<T>(key, dk + t * k, K));
        written += static_cast<double>(dot<T>(key, dk_next + t * k, K));
        for (isize v = 0; v < K * LANES<T>; v += LANES<T>)
          store<T>(dk + t * k + v, load<T>(dk + t * k + v) + load<T>(dk_next + t * k + v));
      }
    }
    multiply<T>({of_earlier_keys, of_queries, of_later_keys}, C, K, dk, k, true);
  }

  // The gradient of the logarithm of a decay is the sum of the terms that the decay multiplies: those of a
  // reflection and a later row, of the states before and after the chunk and a row, and of both states. They
  // are added up, as a difference of larger sums would lose what a strong decay leaves.
  void find_decay_gradients() {
    double passed = 0;  // from the state before to the state after
    for (isize r = 0; r < chunk.call.K; ++r) {
      const isize row = r * chunk.v_stride;
      passed += static_cast<double>(dot<T>(chunk.S + row, D + row, chunk.V));
    }
    passed *= static_cast<double>(chunk.whole);
    double read = 0;
    for (isize i = chunk.n; i-- > 0;) {
      read += reads[static_cast<std::size_t>(i)];
      slopes[static_cast<std::size_t>(i)] += passed + read;
    }
    double written = 0;
    for (isize i = 0; i < chunk.n; ++i) {
      slopes[static_cast<std::size_t>(i)] += written;
      written += writes[static_cast<std::size_t>(i)];
    }
  }

  // By step, the sum over the reflections before it of what the rows from it on read of them: N dN + P dP.
  // `pairs` holds the sums over the rows from the last to the present one, by reflection. What is past the
  // reflections of earlier steps in it is never read.
  void find_pairs() {
    const isize c = chunk.c_stride, R = chunk.call.R;
    std::memset(pairs, 0, chunk.bytes(c));
    for (isize i = chunk.n; i-- > 0;) {
      const isize before = i * R, wide = vectors<T>(before);
      add_products(chunk.P + i * c, dP + i * c, wide);
      for (isize t = before; t < before + R; ++t) add_products(chunk.N + t * c, dN + t * c, wide);
      vec<T> sum{};
      for (isize s = 0; s < before; s += LANES<T>)
        sum += load_some<T>(pairs + s, smaller(LANES<T>, before - s));
      slopes[static_cast<std::size_t>(i)] = static_cast<double>(total<T>(sum));
    }
  }
  void add_products(const T* a, const T* b, isize all) {
    for (isize v = 0; v < all * LANES<T>; v += LANES<T>)
      store<T>(pairs + v, load<T>(pairs + v) + load<T>(a + v) * load<T>(b + v));
  }

  void write_gradients() {
    const Delta& call = chunk.call;
    const isize R = call.R;
    for (isize i = 0; i < chunk.n; ++i) {
      write_rows(grad.q, i, dq + i * chunk.k_stride, chunk.k_stride, 1, call.K);
      write_rows(grad.k, i, dk + i * R * chunk.k_stride, chunk.k_stride, R, call.K);
      write_rows(grad.v, i, dv + i * R * chunk.v_stride, chunk.v_stride, R, call.V);
      if (finds_slopes())
        *chunk.row(grad.log_decay, i, 1) = static_cast<T>(slopes[static_cast<std::size_t>(i)]);
      if (grad.beta.data == nullptr) continue;
      T* to = chunk.row(grad.beta, i, R);
      for (isize j = 0; j < R; ++j) {
        const isize t = (i * R + j) * chunk.v_stride;
        to[j] = dot<T>(chunk.x + t, du + t, chunk.V);
      }
    }
  }
  void write_rows(const View& view, isize i, const T* from, isize stride, isize rows, isize size) const {
    if (view.data == nullptr) return;
    T* to = chunk.row(view, i, rows * size);
    for (isize r = 0; r < rows; ++r) std::memcpy(to + r * size, from + r * stride, chunk.bytes(size));
  }

  // D = whole D + q^T (since g) - k^T (since dv).
  void carry() {
    const isize k = chunk.k_stride, stride = chunk.v_stride;
    chunk.decay(D);
    multiply<T>({{{chunk.q, 1, k, scaled_gradient(), stride, LANES<T>, chunk.n}},
                 {{chunk.k, 1, k, dv_scaled, stride, LANES<T>, chunk.c}}},
                chunk.call.K, chunk.V, D, stride, true);
  }
};

// Call a pass for every head of every sequence. Threads take the next one when they are ready; long
// sequences come first.
template <class Pass, class... Given>
void for_heads(const Delta& call, int threads, const Given&... given) {
  const isize items = call.steps.B * call.H;
  if (items == 0) return;
  std::atomic<isize> next{0};
  auto work = [&] {
    Pass pass(call, given...);
    for (isize item = next++; item < items; item = next++) pass.run(item);
  };
  as_team(
      static_cast<int>(smaller(threads, items)),
      [](void* data, int) { (*static_cast<decltype(work)*>(data))(); }, &work);
}

template <class T>
void delta_forward(const Delta& call, int threads) {
  for_heads<DeltaForward<T>>(call, threads);
}
template <class T>
void delta_backward(const Delta& call, const Delta& grad, int threads) {
  for_heads<DeltaBackward<T>>(call, threads, grad);
}

// One step of one head: both products of the state with the key and the query in one pass over it, and its
// change in another, while it is in the L1 cache. The columns fill C vectors, or n lanes of one.
template <class T, int C>
EIGENRNN_INLINE void step_columns(isize K, isize V, const T* q, const T* k, const T* v, T beta, T a, T match,
                                  const T* S0, T* S, T* o, isize n = LANES<T>) {
  vec<T> of_key[C] = {}, of_query[C] = {};
  for (isize r = 0; r < K; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const vec<T> row = load_some<T>(S0 + r * V + c * LANES<T>, n);
      of_key[c] += splat<T>(k[r]) * row;
      of_query[c] += splat<T>(q[r]) * row;
    }
  vec<T> change[C];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    change[c] = splat<T>(beta) * (load_some<T>(v + c * LANES<T>, n) - splat<T>(a) * of_key[c]);
    store_some<T>(o + c * LANES<T>, splat<T>(a) * of_query[c] + splat<T>(match) * change[c], n);
  }
  for (isize r = 0; r < K; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const isize place = r * V + c * LANES<T>;
      store_some<T>(S + place, splat<T>(a) * load_some<T>(S0 + place, n) + splat<T>(k[r]) * change[c], n);
    }
}

// Each reflection writes the output, and the last one's stays.
template <class T>
void step_head(const DeltaStep& step, isize head) {
  const isize R = step.R, K = step.K, V = step.V;
  const T* q = static_cast<const T*>(step.q) + head * K;
  const T* k = static_cast<const T*>(step.k) + head * R * K;
  const T* v = static_cast<const T*>(step.v) + head * R * V;
  const T* beta = static_cast<const T*>(step.beta) + head * R;
  const T* S0 = static_cast<const T*>(step.S0) + head * K * V;
  T* S = static_cast<T*>(step.S) + head * K * V;
  T* o = static_cast<T*>(step.o) + head * V;
  T a = 1;
  if (step.log_decay != nullptr) a = std::exp(static_cast<const T*>(step.log_decay)[head]);
  for (isize j = 0; j < R; ++j, k += K, v += V, a = 1, S0 = S) {
    vec<T> products{};
    for (isize r = 0; r < K; r += LANES<T>) {
      const isize n = smaller(LANES<T>, K - r);
      products += load_some<T>(k + r, n) * load_some<T>(q + r, n);
    }
    const T match = total<T>(products);
    constexpr isize wide = 4 * LANES<T>;
    isize column = 0;
    for (; column + wide <= V; column += wide)
      step_columns<T, 4>(K, V, q, k, v + column, beta[j], a, match, S0 + column, S + column,
                         o + column);
    for (; column < V; column += LANES<T>)
      step_columns<T, 1>(K, V, q, k, v + column, beta[j], a, match, S0 + column, S + column,
                         o + column, smaller(LANES<T>, V - column));
  }
}

// Waking the other threads takes as long as about this many multiply-adds.
constexpr isize LEAST_STEP = isize{1} << 18;

template <class T>
void delta_step(const DeltaStep& step, int threads) {
  const isize items = step.B * step.H;
  const bool alone = items * step.R * step.K * step.V < LEAST_STEP;
  const int team = static_cast<int>(larger(1, smaller(alone ? 1 : threads, items)));
  struct Context {
    const DeltaStep& step;
    isize items;
    int team;
  } context{step, items, team};
  as_team(
      team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        for (isize i = c.items * member / c.team; i < c.items * (member + 1) / c.team; ++i)
          step_head<T>(c.step, i);
      },
      &context);
}

}  // namespace eigenrnn::EIGENRNN_ISA

// Sums of outer products: the gradients of weights, over as many steps as fit into the cache.
#pragma once
#include "rows.hpp"
#include "scratch.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// Add a factor to a list. Consecutive single rows with stride `apart` are merged into one factor,
// which is faster.
template <class T>
int append(Factor<T>* list, int count, Factor<T> next, isize apart) {
  if (count > 0 && next.depth == 1) {
    Factor<T>& open = list[count - 1];
    // compared as integers, since the pointers may belong to different arrays
    const auto reach = [&](const T* from, isize step) {
      return reinterpret_cast<std::intptr_t>(from) +
             open.depth * step * static_cast<isize>(sizeof(T));
    };
    const bool even = open.depth == 1 || open.step == apart;
    if (even && reinterpret_cast<std::intptr_t>(next.a) == reach(open.a, apart) &&
        reinterpret_cast<std::intptr_t>(next.b) == reach(open.b, open.deep)) {
      open.step = apart;
      ++open.depth;
      return count;
    }
  }
  list[count] = next;
  return count + 1;
}

// Copy the rows of all factors side by side: `many` columns of a, or C vectors of b.
template <class T>
void copy_columns(const Factor<T>* factors, int count, isize first, isize many, T* to) {
  for (int i = 0; i < count; ++i) {
    const Factor<T>& factor = factors[i];
    const T* from = factor.a + first * factor.row;
    for (isize k = 0; k < factor.depth; ++k, from += factor.step)
      for (isize r = 0; r < many; ++r) *to++ = from[r * factor.row];
  }
}
template <class T>
void copy_vectors(const Factor<T>* factors, int count, isize first, isize C, T* to) {
  for (int i = 0; i < count; ++i) {
    const Factor<T>& factor = factors[i];
    const T* from = factor.b + first * factor.wide;
    for (isize k = 0; k < factor.depth; ++k, from += factor.deep)
      for (isize c = 0; c < C; ++c, to += LANES<T>) store<T>(to, load<T>(from + c * factor.wide));
  }
}

// into (rows of `all` vectors, `stride` apart) += sum of factors[i].a^T factors[i].b, read in place.
// The factors advance to the end of their columns.
template <class T>
void add_rows(Factor<T>* factors, int count, isize rows, isize all, T* into, isize stride) {
  const isize wide = columns(static_cast<int>(next_rows(rows)));
  for (isize v = 0; v < all; v += wide) {
    const isize C = smaller(wide, all - v);
    for (isize k = 0, R; k < rows; k += R) {
      R = next_rows(rows - k);
      Blocks<T>::all.table[R][C](factors, count, into + k * stride + v * LANES<T>, stride, true);
      for (int i = 0; i < count; ++i) factors[i].a += R * factors[i].row;
    }
    for (int i = 0; i < count; ++i)
      factors[i].a -= rows * factors[i].row, factors[i].b += C * factors[i].wide;
  }
}

// The same sums. The rows of a factor lie far apart: in every block each of them would miss the cache of addresses.
// Unless few blocks read them, they are first copied side by side, to `memory`. Few rows need no tiles either.
template <class T>
void add_products(Factor<T>* factors, int count, isize rows, isize all, T* into, isize stride,
                  Buffer<T>& memory, Products products = Products::float32) {
  if (rows == 0 || count == 0) return;
  const isize wide = columns(static_cast<int>(next_rows(rows)));
  isize depth = 0;
  for (int i = 0; i < count; ++i) depth += factors[i].depth;
  if (rows <= 4 * MOST_ROWS) {
    add_rows(factors, count, rows, all, into, stride);
    return;
  }
  if constexpr (std::is_same_v<T, float>)
    if (products != Products::float32)
      return add_products_by_tiles(factors, count, rows, all, into, stride, memory, products);
  T* a = memory.at_least(depth * (rows + wide * LANES<T>));
  T* b = a + depth * rows;
  for (isize k = 0, R; k < rows; k += R) {
    R = next_rows(rows - k);
    copy_columns(factors, count, k, R, a + k * depth);
  }
  for (isize v = 0; v < all; v += wide) {
    const isize C = smaller(wide, all - v);
    copy_vectors(factors, count, v, C, b);
    for (isize k = 0, R; k < rows; k += R) {
      R = next_rows(rows - k);
      T* to = into + k * stride + v * LANES<T>;
      for (isize r = R; r < smaller(2 * R, rows - k); ++r)  // of the next block
        for (isize c = 0; c < C; ++c) __builtin_prefetch(to + r * stride + c * LANES<T>, 1);
      const Factor<T> one{a + k * depth, 1, R, b, C * LANES<T>, LANES<T>, depth};
      Blocks<T>::all.table[R][C](&one, 1, to, stride, true);
    }
  }
}

// Append the states before step s, whose deltas begin at `delta`. The first `old` of the `now` rows
// began before step s, the others begin with it. Those that begin anew have a state of zero.
template <class T, class Call>
int append_states(Factor<T>* list, int count, const Call& call, const Share& share, isize s,
                  isize old, isize now, const T* delta, isize row) {
  isize end;
  for (isize r = 0; r < now; r = end) {
    const isize most = r < old ? old : now;
    end = r + 1;
    if (call.steps.begins_anew(s, share.first + r)) continue;
    if (call.steps.resets.data == nullptr) end = most;
    while (end < most && !call.steps.begins_anew(s, share.first + end)) ++end;
    const T* states;
    isize stride = call.h0.first, apart = call.h0.first;
    if (r < old) {
      states = at<T>(call.h, call.steps.time(s - 1), share.first + r);
      stride = call.h.second, apart = call.steps.back(call.h);
    } else {
      states = at<T>(call.h0, share.first + r, 0);
    }
    count = append(list, count, {states, 1, stride, delta + r * row, row, LANES<T>, end - r}, apart);
  }
  return count;
}

// Append the inputs of step s, of which `now` rows run.
template <class T, class Call>
int append_inputs(Factor<T>* list, int count, const Call& call, const Share& share, isize s,
                  isize now, const T* delta, isize row) {
  return append(list, count,
                {at<T>(call.x, call.steps.time(s), share.first), 1, call.x.second, delta, row,
                 LANES<T>, now},
                call.steps.back(call.x));
}

// Add the first `cols` of each of `rows` padded rows to the rows of `to`, from column `begin` on;
// the first call copies. A missing gradient is skipped.
template <class T>
void gather(const View& to, isize rows, isize cols, const T* from, isize width, bool first,
            isize begin = 0) {
  if (to.data == nullptr) return;
  for (isize r = 0; r < rows; ++r) {
    T* row = at<T>(to, r, 0) + begin;
    for (isize j = 0; j < cols; ++j)
      row[j] = first ? from[r * width + j] : row[j] + from[r * width + j];
  }
}

// The same for the transpose: element (begin + j, r) of `to` gets number j of row r.
template <class T>
void gather_transposed(const View& to, isize rows, isize cols, const T* from, isize width, bool first,
                       isize begin = 0) {
  if (to.data == nullptr) return;
  constexpr isize L = LANES<T>;
  alignas(64) T block[L * L];
  const isize whole = rows / L * L;
  for (isize j = 0; j < cols; j += L) {
    const isize n = smaller(L, cols - j);
    for (isize r = 0; r < whole; r += L) {
      transpose(from + r * width + j, width, L, L, block, L);
      for (isize lane = 0; lane < n; ++lane) {
        T* into = at<T>(to, begin + j + lane, 0) + r;
        const vec<T> sum = load<T>(block + lane * L);
        store<T>(into, first ? sum : load<T>(into) + sum);
      }
    }
    for (isize r = whole; r < rows; ++r)
      for (isize lane = 0; lane < n; ++lane) {
        T& into = at<T>(to, begin + j + lane, 0)[r];
        const T sum = from[r * width + j + lane];
        into = first ? sum : into + sum;
      }
  }
}

}  // namespace eigenrnn::EIGENRNN_ISA

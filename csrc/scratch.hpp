// Memory for one call, aligned for vectors.
#pragma once
#include <new>

#include "vec.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
class Scratch {
 public:
  explicit Scratch(isize count)
      : data_(static_cast<T*>(::operator new(static_cast<std::size_t>(count + 1) * sizeof(T),
                                             std::align_val_t{64}))) {}
  ~Scratch() { ::operator delete(data_, std::align_val_t{64}); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  T* data_;
};

}  // namespace eigenrnn::EIGENRNN_ISA

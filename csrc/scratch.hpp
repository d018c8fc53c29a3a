// Memory for one call, aligned for vectors.
#pragma once
#include <new>
#include <optional>

#include "pages.hpp"
#include "vec.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
class Scratch {
 public:
  explicit Scratch(isize count) {
    constexpr std::size_t LARGE = std::size_t{1} << 22;
    const std::size_t bytes = static_cast<std::size_t>(count + 1) * sizeof(T);
    data_ = static_cast<T*>(::operator new(bytes, std::align_val_t{64}));
    if (bytes >= LARGE) prefer_large_pages(data_, bytes);
  }
  ~Scratch() { ::operator delete(data_, std::align_val_t{64}); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  T* data_;
};

// Memory that grows on demand and loses its content then.
template <class T>
class Buffer {
 public:
  T* at_least(isize count) {
    if (count > size_) memory_.emplace(size_ = count);
    return memory_.has_value() ? memory_->get() : nullptr;
  }

 private:
  std::optional<Scratch<T>> memory_;
  isize size_ = 0;
};

}  // namespace eigenrnn::EIGENRNN_ISA

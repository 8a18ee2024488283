#pragma once

#include <string>
#include <string_view>

namespace fusecalc {

// A kernel's name as C++ writes it; a name that is not mangled stays as it is.
std::string demangled(const std::string& symbol);

// The same without parameters, return type and namespaces: "vectorized_elementwise_kernel<4, ...>".
// Arguments of templates are cut after 60 characters.
std::string short_kernel_name(std::string_view name);

}  // namespace fusecalc

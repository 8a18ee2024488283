#include "input/pt2/module_names.hpp"

#include <algorithm>
#include <string>

namespace fusecalc {
namespace {

// Up to the separator, which is removed with it.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.size(), text.find(separator));
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(text.size(), end + 1));
  return taken;
}

// _to_copy and add_ are called to_copy and add.
std::string_view without_underscores(std::string_view op) {
  while (op.starts_with('_')) op.remove_prefix(1);
  while (op.ends_with('_')) op.remove_suffix(1);
  return op;
}

}  // namespace

ModelGraph::Node named_node(std::string_view modules, std::string_view target,
                            std::string_view op) {
  std::string_view path;
  std::string_view outer;
  std::string_view type;
  while (!modules.empty()) {
    std::string_view entry = take_until(modules, ';');
    take_until(entry, ',');
    const std::string_view inner = take_until(entry, ',');
    if (inner != path) outer = path;
    path = inner;
    type = entry;
  }
  // The op of a layer, such as torch.nn.Linear, has the layer's name; what a model's own module
  // calculates has the module's as its scope.
  const bool layer = type.starts_with("torch.nn.modules.") && !path.empty();
  std::string name(path);
  if (!layer) {
    if (!name.empty()) name += '.';
    name += op.empty() ? target : without_underscores(op);
  }
  return {.target = std::string(target),
          .name = std::move(name),
          .scope = std::string(layer ? outer : path)};
}

}  // namespace fusecalc

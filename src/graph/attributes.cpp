#include "graph/attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/suggest.hpp"
#include "core/text.hpp"
#include "graph/attribute_reader.hpp"
#include "graph/foreign_names.hpp"

namespace fusecalc {
namespace {

// Reads one written value, in the words of its attribute.
class Value {
 public:
  Value(const WrittenValue& written, std::string_view expected, const AttributeScope& scope)
      : written_(written), expected_(expected), scope_(scope) {}

  bool truth() const { return get<bool>(); }

  double real() const {
    const auto* whole = std::get_if<std::int64_t>(&written_);
    return whole != nullptr ? static_cast<double>(*whole) : get<double>();
  }

  std::int64_t whole() const { return get<std::int64_t>(); }

  // A whole number or a dim.
  std::int64_t extent() const {
    if (const auto* name = std::get_if<std::string>(&written_)) return scope_.dim(*name);
    return whole();
  }

  // A list of whole numbers and dims; a single one counts as a list of one.
  std::vector<std::int64_t> wholes() const {
    if (std::holds_alternative<std::int64_t>(written_)) return {whole()};
    if (const auto* name = std::get_if<std::string>(&written_)) return {scope_.dim(*name)};
    std::vector<std::int64_t> numbers;
    for (const WrittenDim& item : get<std::vector<WrittenDim>>()) {
      const auto* name = std::get_if<std::string>(&item);
      numbers.push_back(name != nullptr ? scope_.dim(*name) : std::get<std::int64_t>(item));
    }
    return numbers;
  }

  template <typename Enum, std::size_t n>
  Enum word(const std::array<std::string_view, n>& words) const {
    const std::string& text = get<std::string>();
    const auto* found = std::ranges::find(words, text);
    if (found == words.end()) {
      scope_.fail("must be " + listed(words) + ", not " + in_quotes(text) +
                  did_you_mean(text, words));
    }
    return static_cast<Enum>(found - words.begin());
  }

  DType dtype() const {
    const std::string& text = get<std::string>();
    const std::optional<DType> dtype = dtype_named(text);
    if (!dtype) {
      scope_.fail(unknown_dtype(text));
    }
    return *dtype;
  }

 private:
  template <typename T>
  const T& get() const {
    const auto* value = std::get_if<T>(&written_);
    if (value == nullptr) wrong();
    return *value;
  }

  [[noreturn]] void wrong() const {
    scope_.fail("must be " + std::string(expected_));
    __builtin_unreachable();
  }

  const WrittenValue& written_;
  std::string_view expected_;
  const AttributeScope& scope_;
};

struct Row {
  std::string_view name;
  std::string_view other_name;
  std::string_view values;
  void (*set)(Attributes&, const Value&);
};

constexpr std::string_view kPerAxis = "a whole number, or one for each spatial axis";
constexpr std::array<std::string_view, 2> kGeluWords = {"none", "tanh"};
constexpr std::array<std::string_view, 2> kModeWords = {"inference", "training"};
constexpr std::array<std::string_view, 3> kReductionWords = {"none", "mean", "sum"};
constexpr std::array<std::string_view, 5> kCombineWords = {"replace", "add", "mul", "max", "min"};
constexpr std::array<std::string_view, 4> kBorderWords = {"constant", "reflect", "replicate",
                                                          "circular"};

constexpr std::array kRows = {
    Row{"axes", "axis", "an axis or a list of axes",
        [](Attributes& a, const Value& v) { a.axes = v.wholes(); }},
    Row{"perm", "", "a list of axes", [](Attributes& a, const Value& v) { a.perm = v.wholes(); }},
    Row{"shape", "", "a list of extents, one of which may be -1",
        [](Attributes& a, const Value& v) { a.shape = v.wholes(); }},
    Row{"starts", "start", "an index or a list of indices",
        [](Attributes& a, const Value& v) { a.starts = v.wholes(); }},
    Row{"ends", "end", "an index or a list of indices",
        [](Attributes& a, const Value& v) { a.ends = v.wholes(); }},
    Row{"steps", "step", "a step or a list of steps",
        [](Attributes& a, const Value& v) { a.steps = v.wholes(); }},
    Row{"sizes", "", "a list of extents",
        [](Attributes& a, const Value& v) { a.sizes = v.wholes(); }},
    Row{"kernel", "", kPerAxis, [](Attributes& a, const Value& v) { a.kernel = v.wholes(); }},
    Row{"stride", "strides", kPerAxis,
        [](Attributes& a, const Value& v) { a.stride = v.wholes(); }},
    Row{"padding", "", kPerAxis, [](Attributes& a, const Value& v) { a.padding = v.wholes(); }},
    Row{"dilation", "", kPerAxis, [](Attributes& a, const Value& v) { a.dilation = v.wholes(); }},
    Row{"output_padding", "", kPerAxis,
        [](Attributes& a, const Value& v) { a.output_padding = v.wholes(); }},
    Row{"size", "", "an extent or a list of extents, those of the spatial axes",
        [](Attributes& a, const Value& v) { a.size = v.wholes(); }},
    Row{"gradients", "", "the list of the gradients that it has as outputs, by number",
        [](Attributes& a, const Value& v) { a.gradients = v.wholes(); }},
    Row{"groups", "", "a whole number or the name of a dim",
        [](Attributes& a, const Value& v) { a.groups = v.extent(); }},
    Row{"seed", "", "a whole number", [](Attributes& a, const Value& v) { a.seed = v.whole(); }},
    Row{"p", "", "a number", [](Attributes& a, const Value& v) { a.p = v.real(); }},
    Row{"eps", "", "a number", [](Attributes& a, const Value& v) { a.eps = v.real(); }},
    Row{"momentum", "", "a number", [](Attributes& a, const Value& v) { a.momentum = v.real(); }},
    Row{"scale", "", "a number", [](Attributes& a, const Value& v) { a.scale = v.real(); }},
    Row{"alpha", "", "a number", [](Attributes& a, const Value& v) { a.alpha = v.real(); }},
    Row{"beta", "", "a number", [](Attributes& a, const Value& v) { a.beta = v.real(); }},
    Row{"threshold", "", "a number", [](Attributes& a, const Value& v) { a.threshold = v.real(); }},
    Row{"negative_slope", "", "a number",
        [](Attributes& a, const Value& v) { a.negative_slope = v.real(); }},
    Row{"min", "", "a number", [](Attributes& a, const Value& v) { a.min = v.real(); }},
    Row{"max", "", "a number", [](Attributes& a, const Value& v) { a.max = v.real(); }},
    Row{"to", "dtype", "the name of a dtype",
        [](Attributes& a, const Value& v) { a.to = v.dtype(); }},
    Row{"keepdim", "keepdims", "true or false",
        [](Attributes& a, const Value& v) { a.keepdim = v.truth(); }},
    Row{"save_mask", "", "true or false",
        [](Attributes& a, const Value& v) { a.save_mask = v.truth(); }},
    Row{"transpose_a", "", "true or false",
        [](Attributes& a, const Value& v) { a.transpose_a = v.truth(); }},
    Row{"transpose_b", "", "true or false",
        [](Attributes& a, const Value& v) { a.transpose_b = v.truth(); }},
    Row{"causal", "", "true or false", [](Attributes& a, const Value& v) { a.causal = v.truth(); }},
    Row{"window", "", "a whole number or the name of a dim",
        [](Attributes& a, const Value& v) { a.window = v.extent(); }},
    Row{"ceil_mode", "", "true or false",
        [](Attributes& a, const Value& v) { a.ceil_mode = v.truth(); }},
    Row{"count_include_pad", "", "true or false",
        [](Attributes& a, const Value& v) { a.count_include_pad = v.truth(); }},
    Row{"align_corners", "", "true or false",
        [](Attributes& a, const Value& v) { a.align_corners = v.truth(); }},
    Row{"approximate", "", "none|tanh",
        [](Attributes& a, const Value& v) { a.approximate = v.word<GeluKind>(kGeluWords); }},
    Row{"mode", "", "inference|training",
        [](Attributes& a, const Value& v) { a.mode = v.word<BatchNormMode>(kModeWords); }},
    Row{"reduction", "", "none|mean|sum",
        [](Attributes& a,
           const Value& v) { a.reduction = v.word<LossReduction>(kReductionWords); }},
    Row{"correction", "", "a number",
        [](Attributes& a, const Value& v) { a.correction = v.real(); }},
    Row{"before", "", "a list of counts, one for each axis",
        [](Attributes& a, const Value& v) { a.before = v.wholes(); }},
    Row{"after", "", "a list of counts, one for each axis",
        [](Attributes& a, const Value& v) { a.after = v.wholes(); }},
    Row{"value", "", "a number", [](Attributes& a, const Value& v) { a.value = v.real(); }},
    Row{"border", "", "constant|reflect|replicate|circular",
        [](Attributes& a, const Value& v) { a.border = v.word<Border>(kBorderWords); }},
    Row{"shifts", "shift", "a shift or a list of shifts, one for each of the axes",
        [](Attributes& a, const Value& v) { a.shifts = v.wholes(); }},
    Row{"repeats", "", "a list of counts, one for each axis",
        [](Attributes& a, const Value& v) { a.repeats = v.wholes(); }},
    Row{"diagonal", "", "a whole number",
        [](Attributes& a, const Value& v) { a.diagonal = v.whole(); }},
    Row{"classes", "", "a whole number or the name of a dim",
        [](Attributes& a, const Value& v) { a.classes = v.extent(); }},
    Row{"first", "", "a number", [](Attributes& a, const Value& v) { a.first = v.real(); }},
    Row{"delta", "", "a number", [](Attributes& a, const Value& v) { a.delta = v.real(); }},
    Row{"k", "", "a whole number or the name of a dim",
        [](Attributes& a, const Value& v) { a.k = v.extent(); }},
    Row{"largest", "", "true or false",
        [](Attributes& a, const Value& v) { a.largest = v.truth(); }},
    Row{"descending", "", "true or false",
        [](Attributes& a, const Value& v) { a.descending = v.truth(); }},
    Row{"combine", "", "replace|add|mul|max|min",
        [](Attributes& a, const Value& v) { a.combine = v.word<Combine>(kCombineWords); }},
    Row{"interleaved", "", "true or false",
        [](Attributes& a, const Value& v) { a.interleaved = v.truth(); }},
    Row{"rotated", "", "a whole number or the name of a dim",
        [](Attributes& a, const Value& v) { a.rotated = v.extent(); }},
};
static_assert(kRows.size() == static_cast<std::size_t>(Attribute::kRotated) + 1);

const Row& row_of(Attribute attribute) { return kRows[static_cast<std::size_t>(attribute)]; }

}  // namespace

std::string_view name_of(Attribute attribute) { return row_of(attribute).name; }

std::string_view values_of(Attribute attribute) { return row_of(attribute).values; }

std::optional<Attribute> attribute_named(std::string_view name) {
  const auto* found = std::ranges::find_if(
      kRows, [&](const Row& row) { return row.name == name || row.other_name == name; });
  if (name.empty() || found == kRows.end()) return std::nullopt;
  return static_cast<Attribute>(found - kRows.begin());
}

std::int64_t along(const std::vector<std::int64_t>& values, std::size_t axis,
                   std::int64_t otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? values[0] : values[axis];
}

std::vector<Attribute> members_of(AttributeSet set) {
  std::vector<Attribute> members;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const auto attribute = static_cast<Attribute>(i);
    if ((set & only(attribute)) != 0) members.push_back(attribute);
  }
  return members;
}

std::string unknown_dtype(const std::string& name) {
  const std::string nearest = did_you_mean(NameKind::kDType, name, dtype_names());
  return "unknown dtype " + in_quotes(name) +
         (nearest.empty() ? " (known: " + listed(dtype_names()) + ")" : nearest);
}

void set_attribute(Attributes& attributes, Attribute attribute, const WrittenValue& written,
                   const AttributeScope& scope) {
  const Row& row = row_of(attribute);
  row.set(attributes, Value(written, row.values, scope));
}

}  // namespace fusecalc

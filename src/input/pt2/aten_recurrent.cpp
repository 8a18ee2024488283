// Recurrent networks: their steps, one after the other, as the ops that they consist of. A cell is
// one step.

#include <algorithm>
#include <array>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Input = ModelGraph::Input;
using TensorId = ModelGraph::TensorId;

// More steps than this, of all layers, remain one op.
constexpr std::uint64_t kMostSteps = 2048;

// A step is refused.
struct Unknown {};

class Recurrence {
 public:
  // `activation`: of a network with one gate.
  Recurrence(const AtenCall& call, std::size_t gates, std::string_view activation = {})
      : call_(call), graph_(call.graph()), gates_(gates), activation_(activation) {}

  bool run() {
    if (!read()) return false;
    try {
      TensorId rows = call_.tensor(input_);
      for (std::size_t layer = 0; layer < layers_; ++layer) rows = run_layer(layer, rows);
      call_.set(0, rows);
      for (std::size_t i = 1; i < call_.results(); ++i) {
        const std::vector<TensorId>& last = i == 1 ? last_hidden_ : last_cells_;
        if (call_.used(i)) call_.set(i, joined(last, 0));
      }
    } catch (const Unknown&) {
      return false;
    }
    return true;
  }

  bool run_cell() {
    if (!read_cell()) return false;
    try {
      const TensorId input = linear(call_.tensor(input_), *parameter(0, 0), parameter(0, 2));
      std::optional<TensorId> c = cell_state(0);
      call_.set(0, next_state(0, input, state(0, 0), c));
      if (c) call_.set(1, *c);
    } catch (const Unknown&) {
      return false;
    }
    return true;
  }

 private:
  bool read_cell() {
    const auto input = call_.value("input");
    states_ = call_.values("hx");
    for (const std::string_view name : {"w_ih", "w_hh", "b_ih", "b_hh"}) {
      if (const auto param = call_.value(name)) params_.push_back(*param);
    }
    per_pass_ = params_.size();
    if (!input || states_.size() != (gates_ == 4 ? 2 : 1)) return false;
    if (per_pass_ != 2 && per_pass_ != 4) return false;
    input_ = *input;
    const Shape& shape = call_.type().shape();
    if (shape.size() != 2 || call_.at(input_).type.shape().size() != 2) return false;
    batch_ = shape[0];
    hidden_ = shape[1];
    dtype_ = call_.type().dtype();
    return true;
  }

  bool read() {
    const auto input = call_.value("input");
    states_ = call_.values("hx");
    params_ = call_.values("params");
    layers_ = static_cast<std::size_t>(std::max<std::int64_t>(0, call_.whole("num_layers", 1)));
    directions_ = call_.truth("bidirectional", false) ? 2 : 1;
    const bool drops = call_.truth("train", false) && call_.number("dropout").value_or(0) != 0;
    if (!input || drops || layers_ == 0 || states_.empty()) return false;
    input_ = *input;
    for (const ValueId state : states_) {
      if (call_.at(state).type.shape().size() != 3) return false;
    }
    per_pass_ = call_.truth("has_biases", true) ? 4 : 2;
    const Shape& shape = call_.at(input_).type.shape();
    if (shape.size() != 3 || params_.size() != layers_ * directions_ * per_pass_) return false;
    if (states_.size() != (gates_ == 4 ? 2 : 1)) return false;
    time_ = call_.truth("batch_first", false) ? 1 : 0;
    steps_ = shape[time_];
    batch_ = shape[1 - time_];
    hidden_ = call_.at(states_[0]).type.shape()[2];
    dtype_ = call_.type().dtype();
    if (hidden_ == 0 || batch_ == 0 || steps_ == 0 || steps_ > kMostSteps) return false;
    return steps_ * layers_ * directions_ <= kMostSteps;
  }

  TensorId made(std::string_view row, std::vector<Input> inputs, Shape shape,
                std::vector<WrittenAttribute> attributes = {}) {
    const auto result = graph_.op(row, std::move(inputs), std::move(attributes),
                                  model_type(std::move(shape), dtype_));
    if (!result) throw Unknown();
    return *result;
  }

  // Of an axis, [start, end); the axis itself is dropped for a single step.
  TensorId part(TensorId from, std::size_t axis, std::uint64_t start, std::uint64_t end) {
    ModelType type = graph_.type(from);
    type.type.shape[axis] = end - start;
    type.extents[axis] = static_cast<std::int64_t>(end - start);
    const auto result =
        sliced(graph_, from,
               {axis, static_cast<std::int64_t>(start), static_cast<std::int64_t>(end)}, type);
    if (!result) throw Unknown();
    return *result;
  }

  TensorId shaped(TensorId from, const Shape& shape) {
    const auto result = reshaped(call_.graph(), from, model_type(shape, dtype_));
    if (!result) throw Unknown();
    return *result;
  }

  // Results of steps, or of layers, along an axis of their own.
  TensorId joined(const std::vector<TensorId>& rows, std::size_t axis) {
    Shape single = {batch_, hidden_};
    single.insert(single.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    std::vector<Input> parts;
    for (const TensorId row : rows) parts.emplace_back(shaped(row, single));
    if (parts.size() == 1) return std::get<TensorId>(parts[0]);
    single[axis] = rows.size();
    return made("concat", std::move(parts), single,
                {listed("axes", {static_cast<std::int64_t>(axis)})});
  }

  // None: zeros.
  std::optional<TensorId> state(std::size_t which, std::size_t pass) {
    if (call_.at(states_[which]).number == 0.0) return std::nullopt;
    if (call_.at(states_[which]).type.shape().size() == 2) return call_.tensor(states_[which]);
    return shaped(part(call_.tensor(states_[which]), 0, pass, pass + 1), {batch_, hidden_});
  }

  std::optional<TensorId> cell_state(std::size_t pass) {
    return gates_ == 4 ? state(1, pass) : std::nullopt;
  }

  std::optional<TensorId> parameter(std::size_t pass, std::size_t which) {
    if (which >= per_pass_) return std::nullopt;
    return call_.tensor(params_[pass * per_pass_ + which]);
  }

  TensorId linear(TensorId x, TensorId weight, std::optional<TensorId> bias) {
    std::vector<Input> inputs = {x, weight};
    if (bias) inputs.emplace_back(*bias);
    Shape shape = graph_.type(x).shape();
    shape.back() = graph_.type(weight).shape()[0];
    return made("linear", std::move(inputs), shape);
  }

  TensorId run_layer(std::size_t layer, TensorId rows) {
    std::vector<Input> both;
    Shape shape;
    for (std::size_t direction = 0; direction < directions_; ++direction) {
      const TensorId pass = run_pass(layer * directions_ + direction, direction == 1, rows);
      both.emplace_back(pass);
      shape = graph_.type(pass).shape();
    }
    if (both.size() == 1) return std::get<TensorId>(both[0]);
    shape.back() *= both.size();
    return made("concat", std::move(both), shape, {listed("axes", {-1})});
  }

  TensorId run_pass(std::size_t pass, bool backwards, TensorId rows) {
    const TensorId all = linear(rows, *parameter(pass, 0), parameter(pass, 2));
    std::optional<TensorId> h = state(0, pass);
    std::optional<TensorId> c = cell_state(pass);
    std::vector<TensorId> made_rows(steps_);
    for (std::uint64_t i = 0; i < steps_; ++i) {
      const std::uint64_t step = backwards ? steps_ - 1 - i : i;
      const TensorId input = shaped(part(all, time_, step, step + 1), {batch_, gates_ * hidden_});
      h = next_state(pass, input, h, c);
      made_rows[step] = *h;
    }
    last_hidden_.push_back(*h);
    if (c) last_cells_.push_back(*c);
    return joined(made_rows, time_);
  }

  TensorId gate(TensorId from, std::size_t which) {
    return part(from, 1, which * hidden_, (which + 1) * hidden_);
  }

  // What the state adds to the gates: a product, or its bias alone for a state of zeros.
  std::optional<TensorId> from_state(std::size_t pass, std::optional<TensorId> h) {
    if (h) return linear(*h, *parameter(pass, 1), parameter(pass, 3));
    return parameter(pass, 3);
  }

  TensorId next_state(std::size_t pass, TensorId input, std::optional<TensorId> h,
                      std::optional<TensorId>& c) {
    if (gates_ == 3) return gru_step(pass, input, h);
    const auto more = from_state(pass, h);
    const TensorId gates = more ? made("add", {input, *more}, {batch_, gates_ * hidden_}) : input;
    return gates_ == 4 ? lstm_step(gates, c) : made(activation_, {gates}, {batch_, hidden_});
  }

  TensorId lstm_step(TensorId gates, std::optional<TensorId>& c) {
    const Shape row = {batch_, hidden_};
    const TensorId in = made("sigmoid", {gate(gates, 0)}, row);
    const TensorId forget = made("sigmoid", {gate(gates, 1)}, row);
    const TensorId cell = made("tanh", {gate(gates, 2)}, row);
    const TensorId out = made("sigmoid", {gate(gates, 3)}, row);
    const TensorId added = made("mul", {in, cell}, row);
    c = c ? made("fma", {forget, *c, added}, row) : added;
    return made("mul", {out, made("tanh", {*c}, row)}, row);
  }

  TensorId gru_step(std::size_t pass, TensorId input, std::optional<TensorId> h) {
    const Shape row = {batch_, hidden_};
    const auto more = from_state(pass, h);
    if (!more) throw Unknown();
    // A bias alone is one row, which broadcasts.
    const TensorId rows = h ? *more : shaped(*more, {1, 3 * hidden_});
    const TensorId reset =
        made("sigmoid", {made("add", {gate(input, 0), gate(rows, 0)}, row)}, row);
    const TensorId keep = made("sigmoid", {made("add", {gate(input, 1), gate(rows, 1)}, row)}, row);
    const TensorId inner = made("fma", {reset, gate(rows, 2), gate(input, 2)}, row);
    const TensorId fresh = made("tanh", {inner}, row);
    return h ? made("lerp", {fresh, *h, keep}, row) : made("lerp", {fresh, 0.0, keep}, row);
  }

  const AtenCall& call_;
  ModelGraph& graph_;
  std::size_t gates_;
  std::string_view activation_;
  ValueId input_ = 0;
  std::vector<ValueId> states_;
  std::vector<ValueId> params_;
  std::size_t layers_ = 1;
  std::size_t directions_ = 1;
  std::size_t per_pass_ = 4;  // parameters
  std::size_t time_ = 0;      // the axis of steps
  std::uint64_t steps_ = 0;
  std::uint64_t batch_ = 0;
  std::uint64_t hidden_ = 0;
  DType dtype_ = DType::kF32;
  std::vector<TensorId> last_hidden_;
  std::vector<TensorId> last_cells_;
};

bool lstm(const AtenCall& call, std::string_view) { return Recurrence(call, 4).run(); }

bool gru(const AtenCall& call, std::string_view) { return Recurrence(call, 3).run(); }

bool rnn(const AtenCall& call, std::string_view activation) {
  return Recurrence(call, 1, activation).run();
}

bool lstm_cell(const AtenCall& call, std::string_view) { return Recurrence(call, 4).run_cell(); }

bool gru_cell(const AtenCall& call, std::string_view) { return Recurrence(call, 3).run_cell(); }

bool rnn_cell(const AtenCall& call, std::string_view activation) {
  return Recurrence(call, 1, activation).run_cell();
}

constexpr std::array kRecurrentRules = {
    AtenRule{"lstm", lstm},
    AtenRule{"gru", gru},
    AtenRule{"rnn_tanh", rnn, "tanh"},
    AtenRule{"rnn_relu", rnn, "relu"},
    AtenRule{"lstm_cell", lstm_cell},
    AtenRule{"gru_cell", gru_cell},
    AtenRule{"rnn_tanh_cell", rnn_cell, "tanh"},
    AtenRule{"rnn_relu_cell", rnn_cell, "relu"},
};

}  // namespace

std::span<const AtenRule> aten_recurrent_rules() { return kRecurrentRules; }

}  // namespace fusecalc

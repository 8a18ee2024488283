// What the library's op lists must come to, by published or hand-worked figures.

#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

nlohmann::json analysis_of(const std::string& spec, const std::string& plan) {
  const Outcome outcome =
      invoke({"analyze", "@" + spec, "--plan", plan, "--format", "json"}).outcome();
  REQUIRE(outcome.exit_code == 0);
  return nlohmann::json::parse(outcome.out);
}

}  // namespace

TEST_CASE("multi-head attention of BERT-large moves 281.0 M elements at 153 FLOP each") {
  // B=8, L=512, H=16, P=64, I=1024, op by op (published: 43 GFLOP, 153 per element). By hand, in
  // elements: QKV projection 19922944, its bias 25168896, Q K^T 41943040, scaled softmax with
  // dropout 4 * 33554432, weights V 41943040, output projection 9437184, its bias 8389632.
  const nlohmann::json plan = analysis_of("bert_large_mha", "explicit").at("plans").at("explicit");
  std::uint64_t elements = 0;
  for (const nlohmann::json& kernel : plan.at("kernels")) {
    for (const char* side : {"reads", "writes"}) {
      for (const auto& [tensor, bytes] : kernel.at(side).items()) {
        const bool is_mask = tensor.find("mask") != std::string::npos;  // bool; the rest is f16
        elements += bytes.get<std::uint64_t>() / (is_mask ? 1 : 2);
      }
    }
  }
  CHECK(elements == 281022464);
  const auto flops = plan.at("flops").get<std::uint64_t>();
  CHECK(flops / 1'000'000'000 == 43);
  CHECK(flops / elements == 153);
}

TEST_CASE("the SPLADE head in one kernel reads its operands and writes one row per sample") {
  // bf16: hidden 32 * 512 * 768, embedding 30522 * 768, bias 30522; i64: mask 32 * 512 in; 32 *
  // 30522 out. Logits would be 32 * 512 * 30522.
  const nlohmann::json result = analysis_of("splade_head", "auto");
  const nlohmann::json plan = result.at("plans").at("auto");
  REQUIRE(plan.at("kernels").size() == 1);
  CHECK(plan.at("read") == 2 * (32 * 512 * 768 + 30522 * 768 + 30522) + 8 * 32 * 512);
  CHECK(plan.at("write") == 2 * 32 * 30522);
}

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.hpp"

namespace fusecalc {

// The options of a subcommand that has yet to be parsed, and the CLI11 definition that fills them.
class Definition {
 public:
  using Words = std::vector<std::string_view>;

  Definition();

  Command parse(int argc, const char* const* argv);
  CommandSpec describe() const { return describe(app_); }

 private:
  CLI::App* add_command(const std::string& name, const std::string& description, Command command);
  void add_choice(CLI::Option* option, Words choices);
  // Completions offer the library's op lists, @NAME, besides files.
  void offer_op_lists(CLI::Option* option);
  CLI::Option* add_op_lists(CLI::App* app, std::vector<std::string>& documents,
                            const std::string& description);
  void add_output_options(CLI::App* app, std::optional<std::string>& format,
                          std::vector<std::string>& outputs,
                          std::span<const std::string_view> names);
  void add_count(CLI::App* app, const std::string& name, std::uint64_t least, std::uint64_t most,
                 const std::string& description, std::function<void(std::uint64_t)> set);
  void add_listing_format(CLI::App* app, std::optional<std::string>& format);
  void add_dtype_bytes(CLI::App* app, std::optional<std::uint64_t>& dtype_bytes);
  void add_device_index(CLI::App* app, int& index);
  void add_dims(CLI::App* app, std::vector<DimOverride>& dims);
  // `device` starts as the default.
  void add_device(CLI::App* app, std::string& device);
  // To complete; files may be named as well.
  void offer_devices(CLI::Option* option);
  void add_plan(
      CLI::App* app, std::optional<PlanKind>& plan,
      const std::string& description = "as in analyze (default: auto; with fuse: explicit)");
  void define_analyze();
  void define_measure();
  void define_sweep();
  void define_import();
  void define_profile();
  void define_compare();
  void define_doctor();
  void define_ops();
  void define_specs();
  void define_devices();
  void define_schema();
  void define_completion();
  void define_help();
  void define_manual();

  CommandSpec describe(const CLI::App& app) const;
  std::string usage_error(const CLI::ParseError& error) const;
  // The help of a subcommand, or the program's where the name is empty.
  std::string help_on(const std::string& name) const;

  CLI::App app_{"fusecalc: the memory traffic that fusing GPU operations saves"};
  // One typed command per subcommand, filled by CLI11 as it parses.
  std::map<const CLI::App*, std::unique_ptr<Command>> commands_;
  std::map<const CLI::Option*, Words> choices_;
  std::string help_topic_;
};

}  // namespace fusecalc

#include "cli/command_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "cli/completion.hpp"
#include "core/checked.hpp"
#include "core/embedded.hpp"
#include "core/error.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "device/device.hpp"
#include "report/formats.hpp"
#include "report/listing.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

using Words = std::vector<std::string_view>;

std::uint64_t parse_count(const char* option, const std::string& text, std::uint64_t least,
                          std::uint64_t most = kMaxCount) {
  std::uint64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  if (!whole || count < least || count > most) {
    throw CLI::ValidationError(option, fmt::format("must be a whole number from {} to {}, not {}",
                                                   least, most, in_quotes(text)));
  }
  return count;
}

double positive_seconds(const std::string& option, const std::string& text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  constexpr double kDay = 86400;
  if (!whole || !(value > 0 && value <= kDay)) {
    throw CLI::ValidationError(option,
                               "must be a number of seconds above 0, not " + in_quotes(text));
  }
  return value;
}

// Lines of a help text's second column.
std::string wrapped(std::string text) {
  constexpr std::size_t kColumns = 52;
  for (std::size_t begin = 0; text.size() - begin > kColumns;) {
    const std::size_t space = text.rfind(' ', begin + kColumns);
    if (space == std::string::npos || space <= begin) break;
    text[space] = '\n';
    begin = space + 1;
  }
  return text;
}

// "T=4096".
DimOverride parse_dim(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw CLI::ValidationError("--dim", "must look like T=4096, not " + in_quotes(text));
  }
  return {.name = text.substr(0, equals),
          .extent = parse_count("--dim", text.substr(equals + 1), 0)};
}

// The options of a subcommand that has yet to be parsed, and the CLI11 definition that fills them.
class Definition {
 public:
  Definition() {
    app_.name("fusecalc");
    app_.set_help_flag("-h,--help", "print this help and exit");
    app_.set_version_flag("--version", "fusecalc " + std::string(kVersion),
                          "print the version and exit");
    app_.require_subcommand(1);
    app_.get_formatter()->column_width(28);
    app_.footer(
        "Examples:\n"
        "  fusecalc analyze ops.json -o out.json  what fusing saves, kept for scripts\n"
        "  fusecalc analyze @splade_head          one of the library's op lists\n"
        "  fusecalc measure sizes.json            what a GPU says about it\n"
        "  fusecalc compare base.json out.json    whether a change made it worse\n"
        "\nExit codes: 0 fine, 1 a check failed, 2 bad usage or input, 3 not available");
    define_analyze();
    define_measure();
    define_compare();
    define_doctor();
    define_ops();
    define_specs();
    define_schema();
    define_completion();
  }

  Command parse(int argc, const char* const* argv);
  CommandSpec describe() const { return describe(app_); }

 private:
  CLI::App* add_command(const std::string& name, const std::string& description, Command command);
  void add_choice(CLI::Option* option, Words choices);
  void add_output_options(CLI::App* app, std::optional<std::string>& format,
                          std::vector<std::string>& outputs,
                          std::span<const std::string_view> names);
  void add_listing_format(CLI::App* app, std::string& format);
  void add_dtype_bytes(CLI::App* app, std::optional<std::uint64_t>& dtype_bytes);
  void add_device_index(CLI::App* app, int& index);
  void add_dims(CLI::App* app, std::vector<DimOverride>& dims);
  void add_plan(CLI::App* app, std::optional<PlanKind>& plan);
  void define_analyze();
  void define_measure();
  void define_compare();
  void define_doctor();
  void define_ops();
  void define_specs();
  void define_schema();
  void define_completion();

  CommandSpec describe(const CLI::App& app) const;
  std::string explain(const CLI::ParseError& error) const;

  CLI::App app_{"fusecalc: the memory traffic that fusing GPU operations saves"};
  // One typed command per subcommand, filled by CLI11 as it parses.
  std::map<const CLI::App*, std::unique_ptr<Command>> commands_;
  std::map<const CLI::Option*, Words> choices_;
};

CLI::App* Definition::add_command(const std::string& name, const std::string& description,
                                  Command command) {
  CLI::App* app = app_.add_subcommand(name, description);
  app->get_formatter()->column_width(28);
  commands_.emplace(app, std::make_unique<Command>(std::move(command)));
  return app;
}

void Definition::add_choice(CLI::Option* option, Words choices) {
  option->check(CLI::Validator(
      [choices](const std::string& value) -> std::string {
        if (std::ranges::find(choices, value) != choices.end()) return {};
        const std::string meant = did_you_mean(value, choices);
        return in_quotes(value) + " is none of " + listed(choices) + meant;
      },
      ""));
  choices_.emplace(option, std::move(choices));
}

void Definition::add_output_options(CLI::App* app, std::optional<std::string>& format,
                                    std::vector<std::string>& outputs,
                                    std::span<const std::string_view> names) {
  add_choice(app->add_option("-f,--format", format,
                             listed(names) + "\n(default: table on a terminal, json elsewhere)")
                 ->type_name("FORMAT"),
             Words(names.begin(), names.end()));
  app->add_option("-o,--output", outputs, "write a file in its extension's format (again: more)")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void Definition::add_dtype_bytes(CLI::App* app, std::optional<std::uint64_t>& dtype_bytes) {
  app->add_option_function<std::string>(
         "--dtype-bytes",
         [&dtype_bytes](const std::string& text) {
           dtype_bytes = parse_count("--dtype-bytes", text, 1);
         },
         "sizes: bytes per element (default: the list's, or 2)")
      ->type_name("N");
}

void Definition::add_dims(CLI::App* app, std::vector<DimOverride>& dims) {
  app->add_option_function<std::vector<std::string>>(
         "--dim",
         [&dims](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) dims.push_back(parse_dim(text));
         },
         "another extent for a dim (repeatable)")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
}

void Definition::add_plan(CLI::App* app, std::optional<PlanKind>& plan) {
  add_choice(app->add_option_function<std::string>(
                    "--plan", [&plan](const std::string& text) { plan = plan_named(text); },
                    "the plan to set against unfused (default: auto)")
                 ->type_name("PLAN"),
             Words(plan_names().begin(), plan_names().end()));
}

void Definition::define_analyze() {
  CLI::App* app =
      add_command("analyze", "count the bytes an op list moves and fusion saves", AnalyzeOptions{});
  auto& options = std::get<AnalyzeOptions>(*commands_.at(app));
  app->add_option("FILE", options.document, "the op list; @NAME: one of fusecalc specs; -: stdin")
      ->type_name("")
      ->required();
  add_dtype_bytes(app, options.dtype_bytes);
  add_dims(app, options.dims);
  add_plan(app, options.plan);
  app->add_flag("--explain", options.explain, "every kernel in full, and why it ends there");
  options.device = device_names().front();
  add_choice(
      app->add_option("--device", options.device, "whose on-chip memory holds rows (default: h200)")
          ->type_name("GPU"),
      Words(device_names().begin(), device_names().end()));
  add_output_options(app, options.format, options.outputs, format_names());
  app->footer(
      "Examples:\n"
      "  fusecalc analyze @transformer_block --dim T=8192 --explain -f table\n"
      "  generate-sizes | fusecalc analyze - --dtype-bytes 4 -o savings.csv");
}

void Definition::add_listing_format(CLI::App* app, std::string& format) {
  format = ::isatty(STDOUT_FILENO) == 1 ? "table" : "json";
  add_choice(app->add_option(
                    "-f,--format", format,
                    listed(listing_formats()) + "\n(default: table on a terminal, json elsewhere)")
                 ->type_name("FORMAT"),
             listing_formats());
}

void Definition::define_ops() {
  CLI::App* app = add_command("ops", "list the ops that graphs are made of", OpsOptions{});
  add_listing_format(app, std::get<OpsOptions>(*commands_.at(app)).format);
  app->footer("Example:\n  fusecalc ops --format markdown");
}

void Definition::define_specs() {
  CLI::App* app =
      add_command("specs", "list fusecalc's own op lists, or print one", SpecsOptions{});
  auto& options = std::get<SpecsOptions>(*commands_.at(app));
  Words names;
  for (const EmbeddedFile& file : embedded_op_lists()) names.push_back(file.name);
  CLI::Option* name = app->add_option("NAME", options.name, "the one to print")->type_name("");
  choices_.emplace(name, std::move(names));
  add_listing_format(app, options.format);
  app->footer(
      "Examples:\n"
      "  fusecalc specs splade_head > mine.json\n"
      "  fusecalc analyze @splade_head");
}

void Definition::define_measure() {
  static constexpr std::array<std::string_view, 3> kCacheModes = {"isolated", "pipeline", "both"};
  constexpr std::uint64_t kMostRuns = 1'000'000;
  CLI::App* app =
      add_command("measure", "run an op list on a GPU and read its real traffic", MeasureCommand{});
  auto& command = std::get<MeasureCommand>(*commands_.at(app));
  app->add_option("FILE", command.documents, "op lists; @NAME: a spec; -: stdin (none: all specs)")
      ->type_name("");
  app->add_flag_callback(
      "--timing-only", [&command] { command.options.counters = false; },
      "leave the counters alone, and need no right to them");
  add_device_index(app, command.device_index);
  add_choice(app->add_option_function<std::string>(
                    "--cache",
                    [&command](const std::string& mode) {
                      command.options.isolated = mode != "pipeline";
                      command.options.pipeline = mode != "isolated";
                    },
                    "isolated (cold L2), pipeline or both (default)")
                 ->type_name("MODE"),
             Words(kCacheModes.begin(), kCacheModes.end()));
  app->add_option_function<std::string>(
         "--runs",
         [&command](const std::string& text) {
           command.options.runs = parse_count("--runs", text, 1, kMostRuns);
         },
         "time N runs (default: until the median settles)")
      ->type_name("N");
  app->add_option_function<std::string>(
         "--time-budget",
         [&command](const std::string& text) {
           command.options.time_budget_s = positive_seconds("--time-budget", text);
         },
         "seconds for all timing together (default: 1)")
      ->type_name("S");
  app->add_option_function<std::string>(
         "--seed",
         [&command](const std::string& text) {
           command.options.seed = parse_count("--seed", text, 0, kMaxCount);
         },
         "of the tensors' random contents (default: 0)")
      ->type_name("N");
  add_dtype_bytes(app, command.dtype_bytes);
  add_dims(app, command.dims);
  add_plan(app, command.plan);
  app->add_option("--keep-source", command.sources, "write the generated kernels into a folder")
      ->type_name("FOLDER");
  add_output_options(app, command.format, command.outputs, measurement_format_names());
  app->footer(
      "Example:\n"
      "  fusecalc measure @softmax --keep-source kernels -o softmax.json");
}

void Definition::define_compare() {
  CLI::App* app = add_command("compare", "set results against earlier ones; fail where worse",
                              CompareCommand{});
  auto& command = std::get<CompareCommand>(*commands_.at(app));
  app->add_option("BASE", command.base, "the earlier result (JSON), or a folder; -: stdin")
      ->type_name("")
      ->required();
  app->add_option("NEW", command.fresh, "the result to judge; folders are paired by file")
      ->type_name("")
      ->required();
  app->add_option_function<std::vector<std::string>>(
         "--tolerance",
         [&command](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             try {
               command.tolerances.push_back(parse_tolerance_rule(text));
             } catch (const std::invalid_argument& fault) {
               throw CLI::ValidationError("--tolerance", fault.what());
             }
           }
         },
         "how much may grow; default: bytes=0,dram=1%,time=5%\n"
         "(some only: SPEC:bytes=9, SPEC/KERNEL:..., with * ?)")
      ->type_name("RULE")
      ->allow_extra_args(false);
  app->add_option("--tolerance-file", command.tolerance_file,
                  "rules from a document (see schema tolerances)")
      ->type_name("FILE");
  app->add_flag("--only-changed", command.only_changed, "leave out what stayed the same");
  add_choice(
      app->add_option_function<std::string>(
             "--sort", [&command](const std::string& key) { command.sort = sort_named(key); },
             listed(sort_names()) + " first (default: worst)")
          ->type_name("KEY"),
      Words(sort_names().begin(), sort_names().end()));
  app->add_flag("--strict", command.strict, "fail on any change, improvements too");
  app->add_flag("--no-fail", command.no_fail, "only report: exit code 0 whatever became worse");
  app->add_flag("--force", command.force, "in spite of other devices, schemas, dims or dtypes");
  add_output_options(app, command.format, command.outputs, comparison_format_names());
  app->footer(
      "Examples:\n"
      "  fusecalc analyze ops.json -o new.json && fusecalc compare base.json new.json\n"
      "  fusecalc compare baseline/ results/ --only-changed -f github -o gate.xml");
}

void Definition::add_device_index(CLI::App* app, int& index) {
  constexpr std::uint64_t kMostDevices = 1023;
  app->add_option_function<std::string>(
         "--device-index",
         [&index](const std::string& text) {
           index = static_cast<int>(parse_count("--device-index", text, 0, kMostDevices));
         },
         "which GPU, as nvidia-smi counts (default: 0)")
      ->type_name("N");
}

void Definition::define_doctor() {
  CLI::App* app =
      add_command("doctor", "check what measuring needs, and say what to mend", DoctorCommand{});
  add_device_index(app, std::get<DoctorCommand>(*commands_.at(app)).device_index);
  app->footer("Example:\n  fusecalc doctor");
}

void Definition::define_schema() {
  CLI::App* app =
      add_command("schema", "print the JSON Schema of what is read or written", SchemaOptions{});
  Words names;
  for (const EmbeddedFile& file : embedded_schemas()) names.push_back(file.name);
  add_choice(app->add_option("DOCUMENT", std::get<SchemaOptions>(*commands_.at(app)).document,
                             wrapped("one of: " + listed(names)))
                 ->type_name("")
                 ->required(),
             names);
  app->footer("Example:\n  fusecalc schema analysis > analysis.schema.json");
}

void Definition::define_completion() {
  CLI::App* app =
      add_command("completion", "print a completion script for a shell", CompletionOptions{});
  const std::span<const std::string_view> shells = shell_names();
  add_choice(app->add_option("SHELL", std::get<CompletionOptions>(*commands_.at(app)).shell,
                             "one of: " + listed(shells))
                 ->type_name("")
                 ->required(),
             Words(shells.begin(), shells.end()));
  app->footer(
      "Examples:\n"
      "  source <(fusecalc completion bash)\n"
      "  fusecalc completion zsh > ~/.zfunc/_fusecalc\n"
      "  fusecalc completion fish > ~/.config/fish/completions/fusecalc.fish");
}

Command Definition::parse(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return ShowText{app_.help()};
  } catch (const CLI::CallForVersion& version) {
    return ShowText{version.what() + std::string("\n")};
  } catch (const CLI::ParseError& error) {
    throw Error(Fault::kBadInput, explain(error));
  }
  return *commands_.at(app_.get_subcommands().front());
}

std::string Definition::explain(const CLI::ParseError& error) const {
  const std::vector<CLI::App*> chosen = app_.get_subcommands();
  const CLI::App* app = chosen.empty() ? &app_ : chosen.front();
  const std::string see =
      "; see " + app_.get_name() + (chosen.empty() ? "" : " " + app->get_name()) + " --help";
  const std::vector<std::string> rest = app_.remaining(true);
  std::vector<std::string> words;
  for (const CLI::App* sub : app->get_subcommands({})) words.push_back(sub->get_name());
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  const Words known(words.begin(), words.end());
  if (!rest.empty()) {
    const std::string& word = rest.front();
    const bool command = chosen.empty() && !word.starts_with('-');
    const bool option = word.starts_with('-');
    return fmt::format("{} {}{}{}",
                       command  ? "unknown command"
                       : option ? "unknown option"
                                : "unexpected argument",
                       in_quotes(word), did_you_mean(word.substr(0, word.find('=')), known), see);
  }
  if (chosen.empty()) return "no command given" + see;
  for (const CLI::Option* option : app->get_options()) {
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) break;
    const std::string name = option->get_name();
    if (!std::string_view(error.what()).starts_with(name + ":")) continue;
    return fmt::format("{}: {} {}{}", app->get_name(), name,
                       option->count() > 1 ? "is given more than once; keep one"
                                           : "needs a value, " + option->get_type_name(),
                       see);
  }
  return app->get_name() + ": " + printable(error.what(), 400) + see;
}

CommandSpec Definition::describe(const CLI::App& app) const {
  static constexpr std::string_view kFiles[] = {"FILE", "BASE", "NEW"};
  CommandSpec spec{.name = app.get_name(), .description = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    CommandSpec::Argument argument{.description = option->get_description()};
    for (const std::string& name : option->get_snames()) argument.flags.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) argument.flags.push_back("--" + name);
    argument.takes_value = option->get_items_expected_max() > 0;
    argument.names_file = option->get_type_name() == "FILE" ||
                          std::ranges::find(kFiles, option->get_name()) != std::end(kFiles);
    const auto choices = choices_.find(option);
    if (choices != choices_.end()) {
      argument.choices.assign(choices->second.begin(), choices->second.end());
    }
    std::ranges::replace(argument.description, '\n', ' ');
    spec.arguments.push_back(std::move(argument));
  }
  for (const CLI::App* sub : app.get_subcommands({})) spec.subcommands.push_back(describe(*sub));
  return spec;
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  return Definition().parse(argc, argv);
}

CommandSpec describe_command_line() { return Definition().describe(); }

}  // namespace fusecalc

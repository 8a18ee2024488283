#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <utility>

#include "cli/completion.hpp"
#include "core/checked.hpp"
#include "core/embedded.hpp"
#include "core/error.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "report/formats.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

using Words = std::vector<std::string_view>;

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
        "  fusecalc analyze ops.json              what fusing this op list saves\n"
        "  fusecalc analyze ops.json -o out.json  the same, kept for scripts\n"
        "  fusecalc schema sizes                  what an op list may hold\n"
        "  fusecalc completion bash               Tab completes, from now on\n"
        "\nExit codes: 0 fine, 1 a check failed, 2 bad usage or input, 3 not available");
    define_analyze();
    define_schema();
    define_completion();
  }

  Command parse(int argc, const char* const* argv);
  CommandSpec describe() const { return describe(app_); }

 private:
  CLI::App* add_command(const std::string& name, const std::string& description, Command command);
  void add_choice(CLI::Option* option, Words choices);
  void add_output_options(CLI::App* app, std::optional<std::string>& format,
                          std::vector<std::string>& outputs);
  void define_analyze();
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
                                    std::vector<std::string>& outputs) {
  add_choice(app->add_option("-f,--format", format,
                             "table, json, csv or markdown (default: table on a\n"
                             "terminal, json elsewhere)")
                 ->type_name("FORMAT"),
             Words(format_names().begin(), format_names().end()));
  app->add_option("-o,--output", outputs,
                  "write a file too; .txt .json .csv or .md gives the\nformat (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void Definition::define_analyze() {
  CLI::App* app =
      add_command("analyze", "count the bytes an op list moves and fusion saves", AnalyzeOptions{});
  auto& options = std::get<AnalyzeOptions>(*commands_.at(app));
  app->add_option("FILE", options.document, "the op list; - reads standard input")
      ->type_name("")
      ->required();
  app->add_option_function<std::string>(
         "--dtype-bytes",
         [&options](const std::string& text) {
           std::uint64_t bytes = 0;
           const auto parsed = std::from_chars(text.data(), text.data() + text.size(), bytes);
           const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
           if (!whole || bytes == 0 || bytes > kMaxCount) {
             throw CLI::ValidationError("--dtype-bytes",
                                        fmt::format("must be a whole number from 1 to {}, not {}",
                                                    kMaxCount, in_quotes(text)));
           }
           options.dtype_bytes = bytes;
         },
         "bytes per element (default: the list's, or 2)")
      ->type_name("N");
  add_output_options(app, options.format, options.outputs);
  app->footer(
      "Examples:\n"
      "  fusecalc analyze ops.json --format table\n"
      "  generate-ops | fusecalc analyze - --dtype-bytes 4 -o savings.csv");
}

void Definition::define_schema() {
  CLI::App* app =
      add_command("schema", "print the JSON Schema of what is read or written", SchemaOptions{});
  Words names;
  for (const EmbeddedFile& file : embedded_schemas()) names.push_back(file.name);
  add_choice(app->add_option("DOCUMENT", std::get<SchemaOptions>(*commands_.at(app)).document,
                             "one of: " + listed(names))
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
  CommandSpec spec{.name = app.get_name(), .description = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    CommandSpec::Argument argument{.description = option->get_description()};
    for (const std::string& name : option->get_snames()) argument.flags.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) argument.flags.push_back("--" + name);
    argument.takes_value = option->get_items_expected_max() > 0;
    argument.names_file = option->get_type_name() == "FILE" || option->get_name() == "FILE";
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

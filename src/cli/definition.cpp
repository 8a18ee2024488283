// Options shared by several subcommands, and error messages for invalid command lines.

#include "cli/definition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/checked.hpp"
#include "core/embedded.hpp"
#include "core/error.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "device/device.hpp"
#include "report/formats.hpp"
#include "report/listing.hpp"

namespace fusecalc {
namespace {

std::uint64_t parse_count(const std::string& option, const std::string& text, std::uint64_t least,
                          std::uint64_t most) {
  std::uint64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  if (!whole || count < least || count > most) {
    throw CLI::ValidationError(option, fmt::format("must be a whole number from {} to {}, not {}",
                                                   least, most, in_quotes(text)));
  }
  return count;
}

// "T=4096".
DimOverride parse_dim(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw CLI::ValidationError("--dim", "must have the form T=4096, not " + in_quotes(text));
  }
  return {.name = text.substr(0, equals),
          .extent = parse_count("--dim", text.substr(equals + 1), 0, kMaxCount)};
}

// "md" means markdown, as in a file's name, where that is one of the choices.
CLI::Validator format_meant(const std::vector<std::string_view>& choices) {
  return CLI::Validator(
      [choices](std::string& word) {
        const auto meant = std::ranges::find(formats(), "." + word, &Format::extension);
        if (meant != formats().end() && std::ranges::find(choices, meant->name) != choices.end()) {
          word = meant->name;
        }
        return std::string();
      },
      "");
}

bool names_command(const std::vector<std::string>& rest) {
  return !rest.empty() && !rest.front().starts_with('-');
}

}  // namespace

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
        return in_quotes(value) + " is not one of " + listed(choices) + meant;
      },
      ""));
  choices_.emplace(option, std::move(choices));
}

void Definition::offer_op_lists(CLI::Option* option) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const EmbeddedFile& file : embedded_op_lists()) {
      all.push_back("@" + std::string(file.name));
    }
    return all;
  }();
  choices_.emplace(option, Words(names.begin(), names.end()));
}

CLI::Option* Definition::add_op_lists(CLI::App* app, std::vector<std::string>& documents,
                                      const std::string& description) {
  CLI::Option* option = app->add_option("FILE", documents, description)->type_name("");
  offer_op_lists(option);
  return option;
}

void Definition::add_count(CLI::App* app, const std::string& name, std::uint64_t least,
                           std::uint64_t most, const std::string& description,
                           std::function<void(std::uint64_t)> set) {
  app->add_option_function<std::string>(
         name,
         [name, least, most, set = std::move(set)](const std::string& text) {
           set(parse_count(name, text, least, most));
         },
         description)
      ->type_name("N");
}

void Definition::add_output_options(CLI::App* app, std::optional<std::string>& format,
                                    std::vector<std::string>& outputs,
                                    std::span<const std::string_view> names) {
  constexpr std::size_t kColumns = 52;  // beside the option's name, on a terminal of 80
  std::string words = listed(names) + "\n(default: table on terminals, else json)";
  if (words.find('\n') > kColumns) {
    words[words.find('\n')] = ' ';
    words[words.rfind(' ', kColumns)] = '\n';
  }
  const Words choices(names.begin(), names.end());
  add_choice(app->add_option("-f,--format", format, words)
                 ->transform(format_meant(choices))
                 ->type_name("FORMAT"),
             choices);
  app->add_option("-o,--output", outputs, "write a file; extension sets the format (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  // Standard output gets the result in any case.
  app->callback([&outputs] { std::erase(outputs, "-"); });
}

void Definition::add_dtype_bytes(CLI::App* app, std::optional<std::uint64_t>& dtype_bytes) {
  add_count(app, "--dtype-bytes", 1, kMaxCount,
            "sizes: bytes per element (default: the list's, or 2)",
            [&dtype_bytes](std::uint64_t bytes) { dtype_bytes = bytes; });
}

void Definition::add_dims(CLI::App* app, std::vector<DimOverride>& dims) {
  app->add_option_function<std::vector<std::string>>(
         "--dim",
         [&dims](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             DimOverride dim = parse_dim(text);
             if (std::ranges::find(dims, dim.name, &DimOverride::name) != dims.end()) {
               throw CLI::ValidationError(
                   "--dim", in_quotes(dim.name) + " is given more than once; keep one");
             }
             dims.push_back(std::move(dim));
           }
         },
         "override the extent of a dim (repeatable)")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
}

void Definition::add_device(CLI::App* app, std::string& device) {
  device = device_names().front();
  offer_devices(app->add_option("--device", device,
                                "GPU to predict for: one of fusecalc devices, or a\n.json file "
                                "(default: h200)")
                    ->type_name("GPU"));
}

void Definition::offer_devices(CLI::Option* option) {
  choices_.emplace(option, Words(device_names().begin(), device_names().end()));
}

void Definition::add_plan(CLI::App* app, std::optional<PlanKind>& plan,
                          const std::string& description) {
  add_choice(
      app->add_option_function<std::string>(
             "--plan", [&plan](const std::string& text) { plan = plan_named(text); }, description)
          ->type_name("PLAN"),
      Words(plan_names().begin(), plan_names().end()));
}

void Definition::add_device_index(CLI::App* app, int& index) {
  constexpr std::uint64_t kMostDevices = 1023;
  add_count(app, "--device-index", 0, kMostDevices, "GPU index, as in nvidia-smi (default: 0)",
            [&index](std::uint64_t which) { index = static_cast<int>(which); });
}

void Definition::add_listing_format(CLI::App* app, std::optional<std::string>& format) {
  add_choice(
      app->add_option("-f,--format", format,
                      listed(listing_formats()) + "\n(default: table on terminals, else json)")
          ->transform(format_meant(listing_formats()))
          ->type_name("FORMAT"),
      listing_formats());
}

void Definition::define_help() {
  CLI::App* app = add_command("help", "print the help of a command", ShowText{});
  Words names;
  for (const CLI::App* command : app_.get_subcommands({})) names.push_back(command->get_name());
  add_choice(app->add_option("COMMAND", help_topic_, "the command (none: the program's help)")
                 ->type_name(""),
             std::move(names));
  app->footer("Example:\n  fusecalc help analyze");
}

std::string Definition::help_on(const std::string& name) const {
  const CLI::App* app = name.empty() ? &app_ : app_.get_subcommand(name);
  const std::string typed = app_.get_name() + (name.empty() ? "" : " " + name);
  return app->get_formatter()->make_help(app, typed, CLI::AppFormatMode::Normal);
}

Command Definition::parse(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    // Help on a command that there is none of would look as if there were.
    if (app_.get_subcommands().empty() && names_command(app_.remaining())) {
      throw Error(Fault::kBadInput, usage_error(help));
    }
    return ShowText{app_.help()};
  } catch (const CLI::CallForVersion& version) {
    return ShowText{version.what() + std::string("\n")};
  } catch (const CLI::ParseError& error) {
    throw Error(Fault::kBadInput, usage_error(error));
  }
  if (app_.got_subcommand("help")) return ShowText{help_on(help_topic_)};
  Command& command = *commands_.at(app_.get_subcommands().front());
  if (auto* sweep = std::get_if<SweepCommand>(&command))
    sweep->arguments.assign(argv + 1, argv + argc);
  return command;
}

std::string Definition::usage_error(const CLI::ParseError& error) const {
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
  // What follows -- is no option, whatever is wrong before it.
  if (!rest.empty() && rest.front() != "--") {
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
  static constexpr std::string_view kFiles[] = {"FILE", "BASE", "NEW", "PROGRAM"};
  CommandSpec spec{
      .name = app.get_name(), .description = app.get_description(), .notes = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    CommandSpec::Argument argument{.description = option->get_description()};
    for (const std::string& name : option->get_snames()) argument.flags.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) argument.flags.push_back("--" + name);
    argument.value_name = argument.flags.empty() ? option->get_name() : option->get_type_name();
    argument.takes_value = option->get_items_expected_max() > 0;
    argument.several = option->get_items_expected_max() > 1;
    argument.names_file = option->get_type_name() == "FILE" ||
                          std::ranges::find(kFiles, option->get_name()) != std::end(kFiles);
    const auto choices = choices_.find(option);
    if (choices != choices_.end()) {
      argument.choices.assign(choices->second.begin(), choices->second.end());
    }
    std::ranges::replace(argument.description, '\n', ' ');
    spec.arguments.push_back(std::move(argument));
  }
  for (const CLI::App* sub : app.get_subcommands({})) {
    const bool unlisted = sub->get_group().empty();
    if (!unlisted) spec.subcommands.push_back(describe(*sub));
  }
  return spec;
}

}  // namespace fusecalc

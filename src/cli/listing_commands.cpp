// The subcommands that print what fusecalc has: operations, op lists, devices, schemas, and pages
// about its own command line.

#include <span>
#include <string>
#include <string_view>

#include "cli/completion.hpp"
#include "cli/definition.hpp"
#include "core/embedded.hpp"
#include "core/text.hpp"
#include "device/device.hpp"

namespace fusecalc {
namespace {

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

}  // namespace

void Definition::define_ops() {
  CLI::App* app = add_command("ops", "list the operations of graphs", OpsOptions{});
  add_listing_format(app, std::get<OpsOptions>(*commands_.at(app)).format);
  app->footer("Example:\n  fusecalc ops --format markdown");
}

void Definition::define_specs() {
  CLI::App* app =
      add_command("specs", "list fusecalc's own op lists, or print one", SpecsOptions{});
  auto& options = std::get<SpecsOptions>(*commands_.at(app));
  offer_op_lists(
      app->add_option("NAME", options.name, "the one to print: @NAME or NAME")->type_name(""));
  add_listing_format(app, options.format);
  app->footer(
      "Examples:\n"
      "  fusecalc specs @splade_head > mine.json\n"
      "  fusecalc analyze @splade_head");
}

void Definition::define_devices() {
  CLI::App* app =
      add_command("devices", "list the GPUs that --device knows, or print one", DevicesOptions{});
  auto& options = std::get<DevicesOptions>(*commands_.at(app));
  CLI::Option* name = app->add_option("NAME", options.name, "the one to print")->type_name("");
  choices_.emplace(name, Words(device_names().begin(), device_names().end()));
  add_listing_format(app, options.format);
  app->footer(
      "Examples:\n"
      "  fusecalc devices a100 > mine.json\n"
      "  fusecalc analyze @layer_norm --device mine.json");
}

void Definition::define_schema() {
  CLI::App* app =
      add_command("schema", "print the JSON Schema of an input or output", SchemaOptions{});
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

void Definition::define_manual() {
  // Hidden from --help: only packaging needs it.
  CLI::App* app = add_command("manual", "print the manual page", ManualOptions{});
  app->group("");
  app->footer("Example:\n  fusecalc manual | man -l -");
}

}  // namespace fusecalc

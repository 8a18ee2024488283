// Every subcommand and its options.

#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <stdexcept>

#include "cli/completion.hpp"
#include "cli/definition.hpp"
#include "core/checked.hpp"
#include "core/embedded.hpp"
#include "core/text.hpp"
#include "device/device.hpp"
#include "report/formats.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

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

}  // namespace

Definition::Definition() {
  app_.name("fusecalc");
  app_.set_help_flag("-h,--help", "print this help and exit");
  app_.set_version_flag("--version", "fusecalc " + std::string(kVersion),
                        "print the version and exit");
  app_.require_subcommand(1);
  app_.get_formatter()->column_width(28);
  app_.footer(
      "Examples:\n"
      "  fusecalc analyze ops.json -o out.json  what fusion saves, as JSON for scripts\n"
      "  fusecalc analyze model.pt2             the same for a model that was exported\n"
      "  fusecalc compare base.json out.json    whether a change made it worse\n"
      "\nExit codes: 0 success, 1 a check failed, 2 bad usage or input, 3 not available");
  define_analyze();
  define_measure();
  define_import();
  define_compare();
  define_doctor();
  define_ops();
  define_specs();
  define_schema();
  define_completion();
}

void Definition::define_analyze() {
  CLI::App* app =
      add_command("analyze", "count the bytes an op list moves and fusion saves", AnalyzeOptions{});
  auto& options = std::get<AnalyzeOptions>(*commands_.at(app));
  app->add_option("FILE", options.document,
                  "an op list or a model file; @NAME: one of\nfusecalc specs; -: stdin")
      ->type_name("")
      ->required();
  add_dtype_bytes(app, options.dtype_bytes);
  add_dims(app, options.dims);
  add_plan(app, options.plan);
  app->add_flag("--explain", options.explain, "show each kernel's tensors, and why it ends there");
  options.device = device_names().front();
  add_choice(app->add_option("--device", options.device,
                             "GPU whose on-chip memory size counts (default: h200)")
                 ->type_name("GPU"),
             Words(device_names().begin(), device_names().end()));
  add_output_options(app, options.format, options.outputs, format_names());
  app->footer(
      "Examples:\n"
      "  fusecalc analyze @transformer_block --dim T=8192 --explain -f table\n"
      "  generate-sizes | fusecalc analyze - --dtype-bytes 4 -o savings.csv");
}

void Definition::define_measure() {
  static constexpr std::array<std::string_view, 3> kCacheModes = {"isolated", "pipeline", "both"};
  constexpr std::uint64_t kMostRuns = 1'000'000;
  CLI::App* app = add_command("measure", "run an op list on a GPU and count its DRAM traffic",
                              MeasureCommand{});
  auto& command = std::get<MeasureCommand>(*commands_.at(app));
  app->add_option("FILE", command.documents, "op lists, models; @NAME; -: stdin (none: all specs)")
      ->type_name("");
  app->add_flag_callback(
      "--timing-only", [&command] { command.options.counters = false; },
      "do not read the counters (needs no permission)");
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
  add_count(app, "--runs", 1, kMostRuns, "time N runs (default: until the median settles)",
            [&command](std::uint64_t runs) { command.options.runs = runs; });
  app->add_option_function<std::string>(
         "--time-budget",
         [&command](const std::string& text) {
           command.options.time_budget_s = positive_seconds("--time-budget", text);
         },
         "seconds for all timing together (default: 0.5)")
      ->type_name("S");
  add_count(app, "--seed", 0, kMaxCount, "seed of the random input data (default: 0)",
            [&command](std::uint64_t seed) { command.options.seed = seed; });
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

void Definition::define_import() {
  CLI::App* app = add_command("import", "turn a model file into an op list", ImportOptions{});
  auto& options = std::get<ImportOptions>(*commands_.at(app));
  app->add_option("MODEL", options.document, "what torch.export.save wrote (.pt2); -: stdin")
      ->type_name("")
      ->required();
  add_dims(app, options.dims);
  app->add_option("-o,--output", options.output, "write the op list to a file")->type_name("FILE");
  app->add_option("--summary", options.summary, "write as JSON what was recognised")
      ->type_name("FILE");
  app->footer(
      "analyze and measure take a model file as it is.\n\n"
      "Example:\n"
      "  fusecalc import model.pt2 -o ops.json --summary summary.json");
}

void Definition::define_compare() {
  CLI::App* app =
      add_command("compare", "compare results with earlier ones; fail if worse", CompareCommand{});
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
         "allowed growth; default: bytes=0,dram=1%,time=5%\n"
         "(for some: SPEC:bytes=9, SPEC/KERNEL:...; * and ?)")
      ->type_name("RULE")
      ->allow_extra_args(false);
  app->add_option("--tolerance-file", command.tolerance_file,
                  "read rules from a file (see schema tolerances)")
      ->type_name("FILE");
  app->add_flag("--only-changed", command.only_changed, "hide what stayed the same");
  add_choice(
      app->add_option_function<std::string>(
             "--sort", [&command](const std::string& key) { command.sort = sort_named(key); },
             "sort by " + listed(sort_names()) + " (default: worst)")
          ->type_name("KEY"),
      Words(sort_names().begin(), sort_names().end()));
  app->add_flag("--strict", command.strict, "fail on any change, even on improvements");
  app->add_flag("--allow-missing", command.allow_missing,
                "accept figures, plans and results that only BASE has");
  app->add_flag("--no-fail", command.no_fail,
                "report only: exit code 0 even if something is worse");
  app->add_flag("--force", command.force, "even if devices, schemas, dims or dtypes differ");
  add_output_options(app, command.format, command.outputs, comparison_format_names());
  app->footer(
      "Example:\n"
      "  fusecalc compare baseline/ results/ --only-changed -f github -o gate.xml");
}

void Definition::define_doctor() {
  CLI::App* app =
      add_command("doctor", "check what measuring needs, and how to fix it", DoctorCommand{});
  add_device_index(app, std::get<DoctorCommand>(*commands_.at(app)).device_index);
  app->footer("Example:\n  fusecalc doctor");
}

void Definition::define_ops() {
  CLI::App* app = add_command("ops", "list the operations of graphs", OpsOptions{});
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

Command parse_command_line(int argc, const char* const* argv) {
  return Definition().parse(argc, argv);
}

CommandSpec describe_command_line() { return Definition().describe(); }

}  // namespace fusecalc

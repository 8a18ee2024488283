// Every subcommand and its options.

#include "cli/command_line.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "cli/definition.hpp"
#include "core/checked.hpp"
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

void add_axis(std::vector<SweepAxis>& axes, const std::string& text) {
  try {
    SweepAxis axis = parse_axis(text);
    if (std::ranges::find(axes, axis.name, &SweepAxis::name) != axes.end()) {
      throw CLI::ValidationError("--dim", in_quotes(axis.name) +
                                              " is given twice; give its values as a list, "
                                              "T=1..8,16");
    }
    axes.push_back(std::move(axis));
  } catch (const std::invalid_argument& fault) {
    throw CLI::ValidationError("--dim", fault.what());
  }
}

// A flag that may have a text behind an equals sign. An option whose text may be left out would
// take the argument after it.
void add_flag_with_text(CLI::App* app, const std::string& name, const std::string& description,
                        std::function<void(const std::string&)> set) {
  const auto text = std::make_shared<std::string>();
  // CLI11 says "true" where there is none.
  app->add_flag(name, *text, description)
      ->each([text, set = std::move(set)](const std::string& given) {
        set(given == "true" ? "" : given);
      });
}

// The text of --measure: options of the subcommand measure, without what sweep sets itself.
MeasureOptions parse_measure_options(const std::string& text) {
  std::vector<std::string> words = {"fusecalc", "measure"};
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const Command parsed = parse_command_line(static_cast<int>(arguments.size()), arguments.data());
  const auto* command = std::get_if<MeasureCommand>(&parsed);
  const bool allowed = command != nullptr && command->documents.empty() && command->dims.empty() &&
                       !command->dtype_bytes && !command->plan && !command->sources &&
                       command->device_index == 0 && !command->format && command->outputs.empty();
  if (!allowed) {
    throw CLI::ValidationError("--measure",
                               "takes the options --timing-only, --cache, --runs, --time-budget "
                               "and --seed of measure, not " +
                                   in_quotes(text));
  }
  return command->options;
}

}  // namespace

Definition::Definition() {
  app_.name("fusecalc");
  app_.set_help_flag("-h,--help", "print this help and exit");
  app_.set_version_flag("-V,--version", "fusecalc " + std::string(kVersion),
                        "print the version and exit");
  app_.require_subcommand(1);
  app_.get_formatter()->column_width(28);
  app_.footer(
      "Example: fusecalc analyze ops.json -o out.json  (what fusion saves, for scripts)\n"
      "Exit codes: 0 success, 1 a check failed, 2 bad usage or input, 3 not available");
  define_analyze();
  define_measure();
  define_sweep();
  define_import();
  define_profile();
  define_compare();
  define_doctor();
  define_ops();
  define_specs();
  define_devices();
  define_schema();
  define_completion();
  define_help();
  define_manual();
}

void Definition::define_analyze() {
  CLI::App* app =
      add_command("analyze", "count the bytes an op list moves and fusion saves", AnalyzeOptions{});
  auto& options = std::get<AnalyzeOptions>(*commands_.at(app));
  add_op_lists(app, options.documents,
               "op lists, models, folders; @NAME: one of\nfusecalc specs; -: stdin")
      ->required();
  add_dtype_bytes(app, options.dtype_bytes);
  add_dims(app, options.dims);
  add_plan(app, options.plan,
           "compiler, auto, fastest, explicit, limit or unfused\n"
           "(default: auto, or explicit if there is fuse)");
  app->add_flag("--explain", options.explain, "show each kernel's tensors, and why it ends there");
  add_device(app, options.device);
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
  add_op_lists(app, command.documents, "op lists, models; @NAME; -: stdin (none: all specs)");
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

void Definition::define_sweep() {
  constexpr std::uint64_t kMostJobs = 1024;
  constexpr std::uint64_t kMostPoints = 1'000'000;
  CLI::App* app =
      add_command("sweep", "analyze or measure many sizes, on many devices", SweepCommand{});
  auto& command = std::get<SweepCommand>(*commands_.at(app));
  add_op_lists(app, command.documents, "op lists, models; @NAME (none: the sweep of --dir)");
  app->add_option_function<std::vector<std::string>>(
         "--dim",
         [&command](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) add_axis(command.axes, text);
         },
         "T=1..64*2, T=64..512+64 or T=1,8,9 (repeatable)")
      ->type_name("RANGE")
      ->allow_extra_args(false);
  offer_devices(app->add_option("--device", command.devices,
                                "GPUs to analyze for, or .json files (default: h200)")
                    ->delimiter(',')
                    ->allow_extra_args(false)
                    ->type_name("A,B"));
  add_flag_with_text(
      app, "--measure", "on this machine's GPUs; --measure=\"--runs 9\" etc.",
      [&command](const std::string& text) { command.measure = parse_measure_options(text); });
  add_plan(app, command.plan);
  add_dtype_bytes(app, command.dtype_bytes);
  app->add_option("--dir", command.folder, "folder of the results: what is there is not run")
      ->type_name("DIR");
  add_count(app, "--jobs", 1, kMostJobs, "processes (default: one a core; to measure, a GPU)",
            [&command](std::uint64_t jobs) { command.jobs = static_cast<unsigned>(jobs); });
  add_flag_with_text(app, "--slurm", "submit to Slurm; --slurm=\"-p gpu -t 60\" for sbatch",
                     [&command](const std::string& text) { command.slurm = text; });
  add_count(app, "--chunk", 1, kMostPoints, "points per task of the Slurm job",
            [&command](std::uint64_t points) { command.chunk = points; });
  app->add_option("--collect", command.collect, "gather the results of a sweep's folder")
      ->type_name("DIR");
  add_output_options(app, command.format, command.outputs, sweep_format_names());
  app->footer("Example:\n  fusecalc sweep @softmax --dim N=1024..65536*2 --dir s -o s.csv");
}

void Definition::define_import() {
  CLI::App* app = add_command("import", "turn a model file into an op list", ImportOptions{});
  auto& options = std::get<ImportOptions>(*commands_.at(app));
  app->add_option("MODEL", options.document, "a .pt2 of torch.export.save, or .onnx; -: stdin")
      ->type_name("")
      ->required();
  add_dims(app, options.dims);
  app->add_option("-o,--output", options.output, "write the op list to a file")->type_name("FILE");
  app->add_option("--summary", options.summary, "write as JSON what was recognised")
      ->type_name("FILE");
  app->footer(
      "analyze, measure and sweep take a model file as it is.\n\n"
      "Example:\n"
      "  fusecalc import model.pt2 -o ops.json --summary summary.json");
}

void Definition::define_profile() {
  static constexpr std::array<std::string_view, 2> kCacheModes = {"pipeline", "isolated"};
  CLI::App* app =
      add_command("profile", "count the DRAM traffic of a program's kernels", ProfileCommand{});
  auto& command = std::get<ProfileCommand>(*commands_.at(app));
  InjectionSettings& settings = command.settings;
  app->add_option("PROGRAM", command.program, "the program and its arguments, after --")
      ->type_name("")
      ->required();
  offer_op_lists(app->add_option("--op-list", command.op_list,
                                 "match launches with an op list, model or @NAME")
                     ->type_name("FILE"));
  add_dims(app, command.dims);
  add_choice(
      app->add_option_function<std::string>(
             "--cache",
             [&settings](const std::string& mode) { settings.isolated = mode == "isolated"; },
             "pipeline (default) or isolated (cold launches)")
          ->type_name("MODE"),
      Words(kCacheModes.begin(), kCacheModes.end()));
  add_count(app, "--skip", 0, kMaxCount, "let N launches through first",
            [&settings](std::uint64_t launches) { settings.skip = launches; });
  add_count(app, "--count", 1, kMaxCount, "count at most N launches",
            [&settings](std::uint64_t launches) { settings.count = launches; });
  app->add_option("--range", settings.range, "count inside NVTX ranges of this name")
      ->type_name("NAME");
  app->add_option_function<std::string>(
         "--kernel",
         [&settings](const std::string& text) {
           try {
             static_cast<void>(std::regex(text));
           } catch (const std::regex_error&) {
             throw CLI::ValidationError("--kernel",
                                        in_quotes(text) + " is not a regular expression");
           }
           settings.kernel = text;
         },
         "count kernels whose names it finds")
      ->type_name("REGEX");
  app->add_flag("--wait-for-start", settings.wait_for_start,
                "count from the program's cudaProfilerStart on");
  app->add_flag_callback(
      "--no-times", [&command] { command.times = false; },
      "run the program once; times need a second run");
  add_output_options(app, command.format, command.outputs, profile_format_names());
  app->footer(
      "Examples:\n"
      "  fusecalc profile -- python train.py\n"
      "  fusecalc profile --op-list model.pt2 -o profile.json -- python train.py");
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
               std::ranges::move(parse_tolerance_rules(text),
                                 std::back_inserter(command.tolerances));
             } catch (const std::invalid_argument& fault) {
               throw CLI::ValidationError("--tolerance", fault.what());
             }
           }
         },
         "allowed growth; default: bytes=0,dram=1%,time=5%\n"
         "(or PLAN.bytes=9, SPEC:bytes=9, SPEC/KERNEL:...)")
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
  auto& command = std::get<DoctorCommand>(*commands_.at(app));
  add_device_index(app, command.device_index);
  app->add_flag("--calibrate", command.calibrate,
                "measure the GPU's constants of prediction (a minute)");
  app->add_option("-o,--output", command.output, "write the constants to a file, for --device")
      ->type_name("FILE");
  app->footer(
      "Examples:\n"
      "  fusecalc doctor\n"
      "  fusecalc doctor --calibrate -o mine.json");
}

Command parse_command_line(int argc, const char* const* argv) {
  return Definition().parse(argc, argv);
}

CommandSpec describe_command_line() { return Definition().describe(); }

}  // namespace fusecalc

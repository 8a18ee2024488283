#pragma once

#include "cli/command_line.hpp"

namespace fusecalc {

// One function per subcommand, each in its own file; they write to standard output and throw Error.
void run(const AnalyzeOptions& options);
void run(const MeasureCommand& command);
void run(const SweepCommand& command);
void run(const ImportOptions& options);
void run(const CompareCommand& command);
void run(const ProfileCommand& command);
void run(const DoctorCommand& command);
void run(const OpsOptions& options);
void run(const SpecsOptions& options);
void run(const DevicesOptions& options);
void run(const SchemaOptions& options);
void run(const CompletionOptions& options);
void run(const ManualOptions& options);
void run(const ShowText& options);

}  // namespace fusecalc

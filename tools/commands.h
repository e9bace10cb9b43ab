// The subcommands, one per file.
#pragma once

#include "command.h"

namespace kv8 {

CommandRun SetUpBench(CLI::App& app);
CommandRun SetUpCalibrate(CLI::App& app);
CommandRun SetUpGenerate(CLI::App& app);
CommandRun SetUpInspect(CLI::App& app);
CommandRun SetUpMaterialize(CLI::App& app);
CommandRun SetUpPack(CLI::App& app);
CommandRun SetUpPlan(CLI::App& app);
CommandRun SetUpScore(CLI::App& app);
CommandRun SetUpServe(CLI::App& app);
CommandRun SetUpSynth(CLI::App& app);
CommandRun SetUpTokenize(CLI::App& app);
CommandRun SetUpVerify(CLI::App& app);

}  // namespace kv8

#include "codegen/row_schedule.hpp"

#include <doctest/doctest.h>

namespace fusecalc {
namespace {

// An H200: 132 multiprocessors, 227 KiB of shared memory for a block.
const Device kDevice = device_named("h200");

RowLayout rows_of(std::uint64_t rows, std::uint64_t length) {
  return {{{.extent = rows, .reduced = false}, {.extent = length, .reduced = true}}};
}

// bf16 rows that are read in two passes and written.
RowWork normalisation(const RowLayout& rows) {
  return {.rows = rows,
          .widest_bytes = 2,
          .held_bytes = 2,
          .stored_bytes = 2,
          .least_bytes = 2,
          .holds = true,
          .plain = true,
          .state_bytes = 28,
          .waits = true,
          .writes = true};
}

TEST_CASE("a short row stays in the registers of its threads") {
  const RowLayout rows = rows_of(65536, 4096);
  const RowSchedule schedule = schedule_rows(normalisation(rows), kDevice);
  CHECK(schedule.team == 128);  // 512 groups of 16 bytes, four a thread
  CHECK(schedule.in_registers == 4);
  CHECK(schedule.in_shared == 0);
  CHECK(!schedule.copies);
  CHECK(!schedule.as_stored);
}

TEST_CASE("threads have as many groups each where whole warps can") {
  const auto scheduled = [](std::uint64_t length) {
    const RowLayout rows = rows_of(65536, length);
    return schedule_rows(normalisation(rows), kDevice);
  };
  CHECK(scheduled(5120).team == 160);  // 640 groups, four a thread
  CHECK(scheduled(5120).in_registers == 4);
  CHECK(scheduled(7168).team == 224);
  CHECK(scheduled(2560).team == 64);  // 320 groups: five, as four would be two warps and a half
  CHECK(scheduled(1280).team == 32);  // and here a warp has a row
  CHECK(scheduled(1280).threads == 128);
  CHECK(scheduled(3072).team == 128);  // three, as before
  CHECK(scheduled(5504).team == 256);  // 688 groups are 16 times 43
  // What is copied on chip, or not held at all, does not wait for a branch.
  CHECK(scheduled(10240).team == 512);
  const RowLayout rows = rows_of(65536, 5120);
  RowWork sum = normalisation(rows);
  sum.holds = sum.writes = false;
  CHECK(schedule_rows(sum, kDevice).team == 256);
  RowWork computed = normalisation(rows);
  computed.plain = false;
  computed.held_bytes = 4;
  CHECK(schedule_rows(computed, kDevice).team == 160);
}

TEST_CASE("neighbouring threads take whole lines of short rows") {
  const RowLayout rows = rows_of(100000, 64);  // 8 groups of 16 bytes are a line
  const RowSchedule schedule = schedule_rows(normalisation(rows), kDevice);
  CHECK(schedule.team == 8);
  CHECK(schedule.rounds == 1);
  CHECK(schedule.threads == 128);
  const RowLayout shorter = rows_of(100000, 16);
  CHECK(schedule_rows(normalisation(shorter), kDevice).team == 2);
}

TEST_CASE("short rows of odd length are moved many together") {
  const RowLayout rows = rows_of(1000000, 77);
  RowWork work = normalisation(rows);
  work.shifts = true;
  work.run_bytes = 4;  // one memory is read, one written
  const RowSchedule schedule = schedule_rows(work, kDevice);
  CHECK(schedule.in_runs);
  CHECK(schedule.width == 1);
  CHECK(schedule.team == 2);
  CHECK(schedule.in_registers == 39);
  // 128 rows of 308 bytes are more than a block's run.
  CHECK(schedule.threads == 128);
  // Threads that hold nothing take at most 20 elements each.
  work.holds = work.writes = false;
  CHECK(schedule_rows(work, kDevice).team == 4);
  // Two blocks for each multiprocessor take 264 * 64 rows.
  const RowLayout few = rows_of(16895, 77);
  CHECK_FALSE(schedule_rows(normalisation(few), kDevice).in_runs);
  // Neither where rows are no run, nor where threads take more at once, in whole or shifted groups.
  work.run_bytes = 0;
  CHECK_FALSE(schedule_rows(work, kDevice).in_runs);
  const auto in_runs = [](std::uint64_t length) {
    const RowLayout layout = rows_of(1000000, length);
    RowWork other = normalisation(layout);
    other.shifts = true;
    other.run_bytes = 4;
    return schedule_rows(other, kDevice).in_runs;
  };
  CHECK_FALSE(in_runs(76));
  CHECK(in_runs(111));
  CHECK(in_runs(151));
  CHECK_FALSE(in_runs(161));
  CHECK_FALSE(in_runs(129));  // the rows of a warp begin in few banks of the shared memory
  CHECK(in_runs(33));         // but of shorter ones little else is left
}

TEST_CASE("losses of longer rows are taken from runs, too") {
  const auto in_runs = [](std::uint64_t length, unsigned widest, unsigned run) {
    const RowLayout layout = rows_of(1000000, length);
    return schedule_rows({.rows = layout,
                          .widest_bytes = widest,
                          .state_bytes = 28,
                          .waits = true,
                          .adds_up = true,
                          .shifts = true,
                          .run_bytes = run},
                         kDevice)
        .in_runs;
  };
  CHECK(in_runs(151, 2, 2));
  CHECK(in_runs(223, 2, 2));
  CHECK_FALSE(in_runs(225, 2, 2));
  CHECK_FALSE(in_runs(152, 2, 2));  // groups of 16 bytes
  CHECK_FALSE(in_runs(151, 2, 4));  // the sum of two tensors
  CHECK(in_runs(71, 4, 4));
  CHECK_FALSE(in_runs(73, 4, 4));
}

TEST_CASE("places of columns are merged from fewer blocks than sums") {
  const RowLayout columns{{{.extent = 8192, .reduced = true}, {.extent = 8192, .reduced = false}}};
  RowWork work{.rows = columns, .widest_bytes = 2, .state_bytes = 28};
  // 32 blocks side by side: 528 and 396 are wanted in all.
  CHECK(schedule_rows(work, kDevice).splits == 17);
  work.places = true;
  CHECK(schedule_rows(work, kDevice).splits == 13);
}

TEST_CASE("few columns leave no threads without one") {
  RowLayout columns{{{.extent = 1000000, .reduced = true}, {.extent = 3, .reduced = false}}};
  const RowWork sum{.rows = columns, .widest_bytes = 4, .state_bytes = 4};
  const RowSchedule schedule = schedule_rows(sum, kDevice);
  CHECK(schedule.columns);
  CHECK(schedule.threads == 256);
  CHECK(schedule.team == 64);  // four side by side, of which three have a column
}

TEST_CASE("blocks have whole lines, as one where groups divide several together") {
  // Eight lines of 77 elements of 2 bytes are 77 groups of 16 bytes.
  RowLayout columns{{{.extent = 4000000, .reduced = true}, {.extent = 77, .reduced = false}}};
  RowWork sum{
      .rows = columns, .widest_bytes = 2, .state_bytes = 28, .lines = 8, .line_state_bytes = 4};
  const RowSchedule schedule = schedule_rows(sum, kDevice);
  CHECK(schedule.width == 8);
  CHECK(schedule.teams() == 77);
  CHECK(schedule.team == 13);
  CHECK(schedule.threads == 1001);
  CHECK(schedule.splits == kDevice.multiprocessors);
  CHECK(describe(schedule).find(", 8 lines as one") != std::string::npos);
  // Larger states than there is room for at once.
  CHECK(schedule.room * 77 * 4 < 48 << 10);
  CHECK((schedule.room + 4) * 77 * 4 > 48 << 10);
  sum.line_state_bytes = 16;
  CHECK(schedule_rows(sum, kDevice).threads == 1001);
  CHECK(schedule_rows(sum, kDevice).room == schedule.room / 4);
  // Not what leaves no registers for loads, lines longer than a block takes together, or too few of
  // them for all multiprocessors.
  sum.line_state_bytes = 40;
  CHECK(schedule_rows(sum, kDevice).room == 0);
  sum.line_state_bytes = 4;
  columns.axes[1].extent = 1023;
  CHECK(schedule_rows(sum, kDevice).room > 0);
  columns.axes[1].extent = 1025;
  CHECK(schedule_rows(sum, kDevice).room == 0);
  columns = {{{.extent = 8 * 13 * 132 * 2, .reduced = true}, {.extent = 77, .reduced = false}}};
  CHECK(schedule_rows(sum, kDevice).room == 0);
}

TEST_CASE("columns on chip leave room for other blocks") {
  // 1,024 elements of 4 bytes: eight groups side by side would take 128 KiB of shared memory; of
  // four, each of 512 threads has eight.
  const RowLayout columns{{{.extent = 64, .reduced = false},
                           {.extent = 1024, .reduced = true},
                           {.extent = 1000, .reduced = false}}};
  RowWork work = normalisation(columns);
  work.widest_bytes = 4;
  work.held_bytes = work.stored_bytes = work.least_bytes = 4;
  const RowSchedule schedule = schedule_rows(work, kDevice);
  CHECK(schedule.width == 4);
  CHECK(schedule.teams() == 4);
  CHECK(schedule.threads == 512);
  CHECK(schedule.in_registers == 8);
}

TEST_CASE("a row of 64 KiB is copied on chip, by three blocks to a multiprocessor") {
  const RowLayout rows = rows_of(4096, 32768);
  const RowSchedule schedule = schedule_rows(normalisation(rows), kDevice);
  CHECK(schedule.threads == 512);
  CHECK(schedule.rounds == 8);  // 4096 groups
  CHECK(schedule.in_shared == 8);
  CHECK(schedule.in_registers == 0);
  CHECK(schedule.copies);
  CHECK(schedule.resident == 3);
  CHECK(describe(schedule) == "rows by 512 threads, held in shared memory");
}

TEST_CASE("a copy past the registers takes at least four bytes of each value") {
  // Rows of odd length: a thread takes one element at a time, here of two values that are held.
  const RowLayout rows = rows_of(4096, 20001);
  RowWork work = normalisation(rows);
  work.held_bytes = work.stored_bytes = 4;
  work.least_bytes = 2;
  CHECK(schedule_rows(work, kDevice).in_shared > 0);
  CHECK(!schedule_rows(work, kDevice).copies);
  work.least_bytes = 4;  // a single one of f32
  CHECK(schedule_rows(work, kDevice).copies);
}

TEST_CASE("rows too large for half of the shared memory stay in registers") {
  // 128 KiB: 16 rounds of 8 KiB. Of the half of 228 KiB, 116736 bytes, a block takes 1024 of its
  // own and 1024 + 16 * 28 for states; 114240 are left, or 13 rounds.
  const RowLayout rows = rows_of(2048, 65536);
  const RowSchedule schedule = schedule_rows(normalisation(rows), kDevice);
  CHECK(schedule.threads == 512);
  CHECK(schedule.resident == 2);
  CHECK(schedule.in_shared == 13);
  CHECK(schedule.in_registers == 3);
  CHECK(describe(schedule) == "rows by 512 threads, held in shared memory and registers");
}

TEST_CASE("blocks of clusters hold the longest rows, one alone where it holds two values of each") {
  const RowLayout longest = rows_of(1000, 114688);  // 224 KiB
  const RowSchedule shared = schedule_rows(normalisation(longest), kDevice);
  CHECK(shared.splits == 4);
  CHECK(shared.threads == 512);
  CHECK(shared.resident == 3);
  CHECK(shared.in_shared == 7);
  CHECK(shared.in_registers == 0);
  const RowLayout half = rows_of(1000, 57344);
  RowWork two = normalisation(half);
  two.held_bytes = two.stored_bytes = 4;
  const RowSchedule alone = schedule_rows(two, kDevice);
  CHECK(alone.splits == 1);
  CHECK(alone.threads == 1024);
  CHECK(alone.resident == 1);
  CHECK(alone.in_shared + alone.in_registers == 7);
}

TEST_CASE("three blocks hold rows rather than two where threads find moments, or compute values") {
  const RowLayout rows = rows_of(2048, 65536);
  RowWork work = normalisation(rows);
  CHECK(schedule_rows(work, kDevice).splits == 1);
  work.moments = true;
  const RowSchedule moments = schedule_rows(work, kDevice);
  CHECK(moments.splits == 2);
  CHECK(moments.resident == 3);
  work.moments = work.plain = false;
  const RowSchedule computed = schedule_rows(work, kDevice);
  CHECK(computed.splits == 2);
  CHECK(computed.resident == 3);
  // Without clusters a block holds them alone.
  CHECK(schedule_rows(work, device_named("a100")).splits == 1);
}

TEST_CASE("rows that are not held are read again") {
  const RowLayout longer = rows_of(1000, 262144);  // 512 KiB
  RowWork work = normalisation(longer);
  work.holds = false;
  const RowSchedule schedule = schedule_rows(work, kDevice);
  CHECK(!schedule.holds());
  CHECK(schedule.threads == 512);
}

TEST_CASE("a cluster holds the rows that no multiprocessor holds") {
  const RowLayout rows = rows_of(1000, 262144);  // 512 KiB; three blocks of 72 KiB are resident
  const RowSchedule schedule = schedule_rows(normalisation(rows), kDevice);
  CHECK(schedule.cluster);
  CHECK(schedule.splits == 8);
  CHECK(schedule.threads == 512);
  CHECK(schedule.resident == 3);
  CHECK(schedule.rounds == 8);  // 32768 groups by 8 blocks
  CHECK(schedule.in_shared == 8);
  CHECK(schedule.copies);
  CHECK(describe(schedule) == "rows by 4096 threads in 8 blocks, held in shared memory");
  const RowLayout longest = rows_of(1000, 929792);  // 8 times 227 KiB
  const RowSchedule whole = schedule_rows(normalisation(longest), kDevice);
  CHECK(whole.splits == 8);  // 7 would do, but of those no more run at once
  CHECK(whole.resident == 1);
  CHECK(whole.in_shared == 14);  // 116224 groups, by 8 blocks of 1024 threads
  CHECK(whole.in_registers == 1);
  // Without clusters they are read again.
  const RowSchedule ampere = schedule_rows(normalisation(rows), device_named("a100"));
  CHECK(!ampere.cluster);
  CHECK(!ampere.holds());
}

TEST_CASE("rows of odd length are taken in whole groups where groups may begin anywhere") {
  const auto of_length = [](std::uint64_t length) {
    const RowLayout rows = rows_of(4096, length);
    RowWork work = normalisation(rows);
    work.shifts = true;
    return schedule_rows(work, kDevice);
  };
  const RowSchedule schedule = of_length(4975);
  CHECK(schedule.shifted);
  CHECK(schedule.width == 8);
  CHECK(schedule.team == 256);  // 621 groups, three a thread
  CHECK(schedule.in_registers == 3);
  // A thread for each of the 14 elements that may be left at a row's ends.
  CHECK(of_length(131).team == 16);
  // Of the shortest rows, many would be such elements.
  CHECK(!of_length(111).shifted);
  CHECK(!of_length(4976).shifted);
  const RowLayout rows = rows_of(4096, 4975);
  CHECK(schedule_rows(normalisation(rows), kDevice).width == 1);
}

TEST_CASE("computed values stay in registers if their rounded form fits") {
  const RowLayout rows = rows_of(4096, 32768);
  RowWork work = normalisation(rows);
  work.plain = false;
  work.held_bytes = 4;  // 128 bytes a thread, of which 1024 threads spare 64
  const RowSchedule schedule = schedule_rows(work, kDevice);
  CHECK(schedule.threads == 1024);
  CHECK(schedule.in_registers == 4);
  CHECK(schedule.as_stored);
  const RowLayout shorter = rows_of(8192, 16384);
  RowWork half = work;
  const RowSchedule exact = schedule_rows({.rows = shorter,
                                           .widest_bytes = 2,
                                           .held_bytes = 4,
                                           .stored_bytes = 2,
                                           .least_bytes = 2,
                                           .holds = true,
                                           .state_bytes = half.state_bytes,
                                           .writes = true},
                                          kDevice);
  CHECK(exact.threads == 512);
  CHECK(exact.in_registers == 4);
  CHECK(!exact.as_stored);
}

TEST_CASE("two blocks of half as many threads hold computed rows of f32, where they have room") {
  const auto of_length = [](std::uint64_t length) {
    const RowLayout rows = rows_of(4096, length);
    return schedule_rows({.rows = rows,
                          .widest_bytes = 4,
                          .held_bytes = 4,
                          .stored_bytes = 4,
                          .holds = true,
                          .state_bytes = 8,
                          .writes = true},
                         kDevice);
  };
  const RowSchedule schedule = of_length(12344);
  CHECK(schedule.threads == 512);
  CHECK(schedule.resident == 2);
  CHECK(schedule.in_registers == 7);  // 3,086 groups
  CHECK(of_length(16384).in_registers == 8);
  CHECK(of_length(8192).threads == 512);
  CHECK(of_length(8192).resident == 0);  // as many as the registers allow
  CHECK(of_length(16388).in_shared > 0);
}

TEST_CASE("a sum over all rows runs few blocks, each of which takes several rows") {
  const RowLayout rows = rows_of(8192, 32000);
  const RowWork work{
      .rows = rows, .widest_bytes = 2, .state_bytes = 28, .waits = true, .adds_up = true};
  const RowSchedule schedule = schedule_rows(work, kDevice);
  CHECK(schedule.threads == 512);  // 4000 groups, five rounds or more
  CHECK(schedule.rounds == 8);
  CHECK(schedule.stays == 4 * 4 * 132);  // 1536 threads to a multiprocessor
  const RowLayout few = rows_of(390, 32000);
  const RowSchedule each = schedule_rows(
      {.rows = few, .widest_bytes = 2, .state_bytes = 28, .waits = true, .adds_up = true}, kDevice);
  CHECK(each.stays == 0);
  // A warp or less has a row for two rounds or more, or for four where a row's ends come after.
  const auto team_of = [](std::uint64_t columns) {
    const RowLayout layout = rows_of(1000000, columns);
    return schedule_rows({.rows = layout,
                          .widest_bytes = 2,
                          .state_bytes = 28,
                          .waits = true,
                          .adds_up = true,
                          .shifts = true},
                         kDevice)
        .team;
  };
  CHECK(team_of(80) == 4);
  CHECK(team_of(777) == 16);
  CHECK(team_of(1000) == 32);
  CHECK(team_of(2000) == 32);
  CHECK(team_of(4096) == 64);
}

TEST_CASE("schedules divide the smaller shared memory of an older GPU") {
  // 163 KiB: a third of 164 KiB holds six rounds of 8 KiB, so two blocks have nine or more each.
  const RowLayout rows = rows_of(4096, 32768);
  const RowSchedule schedule = schedule_rows(normalisation(rows), device_named("a100"));
  CHECK(schedule.resident == 2);
  CHECK(schedule.in_shared == 8);
  CHECK(schedule.in_registers == 0);
}

}  // namespace
}  // namespace fusecalc

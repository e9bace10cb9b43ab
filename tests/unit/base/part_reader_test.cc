// Reads of many parts: whole, whatever a queue or a call leaves out.
#include "base/part_reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <numeric>

#include "base/file.h"
#include "support/or_throw.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

constexpr std::int64_t kPart = 37;

/// A file of `count` parts, and the memory that they are read to, last part first.
struct Parts {
  explicit Parts(std::size_t count) : content(count * kPart, '\0'), to(content.size()) {
    std::iota(content.begin(), content.end(), '\0');
    test::WriteFile(dir / "file", content);
    file.emplace(test::OrThrow(OpenFile::Open(dir / "file")));
    for (std::size_t i = count; i-- > 0;) {
      parts.push_back({file->fd(), static_cast<std::int64_t>(i) * kPart,
                       to.data() + static_cast<std::ptrdiff_t>(i) * kPart, kPart});
    }
  }
  bool whole() const {
    return std::equal(to.begin(), to.end(), content.begin(),
                      [](std::byte byte, char c) { return byte == static_cast<std::byte>(c); });
  }

  test::TempDir dir;
  std::string content;
  std::vector<std::byte> to;
  std::optional<OpenFile> file;
  std::vector<FilePart> parts;
};

/// Room for five reads, answered last first: `fault` says how.
class FaultyQueue final : public ReadQueue {
 public:
  using Fault = std::int64_t (*)(std::size_t part);
  explicit FaultyQueue(Fault fault) : fault_(fault) {}
  std::size_t Begin(std::span<const FilePart> parts, std::size_t first) override {
    std::size_t count = 0;
    for (; first + count < parts.size() && begun_.size() < 5; ++count) {
      begun_.push_back({first + count, fault_(first + count)});
      const FilePart& part = parts[first + count];
      if (begun_.back().result > 0) {
        begun_.back().result =
            ::pread(part.fd, part.to, static_cast<std::size_t>(begun_.back().result), part.offset);
      }
    }
    return count;
  }
  Answer Wait() override {
    const Answer answer = begun_.back();
    begun_.pop_back();
    return answer;
  }

 private:
  Fault fault_;
  std::deque<Answer> begun_;
};

std::optional<PartReader::Failure> Read(PartReader& reader, Parts& parts) {
  ThreadPool pool(3);
  reader.Start(parts.parts, pool);
  return reader.Finish();
}

TEST(PartReader, ReadsEveryPartByCallsAndByTheKernelsQueue) {
  for (const std::size_t count : {0, 1, 7, 1000}) {
    Parts parts(count);
    PartReader by_calls(nullptr);
    EXPECT_FALSE(Read(by_calls, parts));
    EXPECT_TRUE(parts.whole());
    auto ring = OpenRing();
    if (!ring.ok()) GTEST_SKIP() << ring.error().what;
    PartReader by_queue(std::move(ring).value());
    for (int again = 0; again < 3; ++again) {
      std::ranges::fill(parts.to, std::byte{0xEE});
      EXPECT_FALSE(Read(by_queue, parts));
      EXPECT_TRUE(parts.whole());
    }
  }
}

TEST(PartReader, WhatAQueueLeavesOutIsAskedForAgain) {
  Parts parts(40);
  PartReader reader(std::make_unique<FaultyQueue>([](std::size_t part) -> std::int64_t {
    constexpr std::int64_t kAnswers[] = {kPart, 1, 0, -EINTR, kPart - 1, -EAGAIN, -EBUSY};
    return kAnswers[part % std::size(kAnswers)];
  }));
  EXPECT_FALSE(Read(reader, parts));
  EXPECT_TRUE(parts.whole());
}

TEST(PartReader, WhatACallLeavesOutIsAskedForAgain) {
  Parts parts(40);
  PartReader reader(nullptr, [](int fd, void* to, std::size_t bytes, off_t offset) -> ssize_t {
    static thread_local int calls = 0;
    if (++calls % 3 == 0) {
      errno = EINTR;
      return -1;
    }
    return ::pread(fd, to, (bytes + 1) / 2, offset);
  });
  EXPECT_FALSE(Read(reader, parts));
  EXPECT_TRUE(parts.whole());
}

TEST(PartReader, TheFirstPartThatFailsIsTold) {
  Parts parts(40);
  PartReader by_queue(std::make_unique<FaultyQueue>([](std::size_t part) -> std::int64_t {
    return part == 33 ? -EIO : part == 12 ? -ENODEV : kPart;
  }));
  auto failure = Read(by_queue, parts);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->part, 12u);
  EXPECT_EQ(failure->number, ENODEV);
  PartReader by_calls(nullptr, [](int, void*, std::size_t, off_t offset) -> ssize_t {
    errno = EIO;
    return offset < 4 * kPart ? -1 : kPart;  // the last four parts
  });
  failure = Read(by_calls, parts);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->part, 36u);
  EXPECT_EQ(failure->number, EIO);
}

TEST(PartReader, AFileThatGotShorterIsTold) {
  Parts parts(40);
  std::filesystem::resize_file(parts.dir / "file", 20 * kPart + 5);
  PartReader by_calls(nullptr);
  auto failure = Read(by_calls, parts);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->part, 0u);
  EXPECT_EQ(failure->number, 0);
  auto ring = OpenRing();
  if (!ring.ok()) GTEST_SKIP() << ring.error().what;
  PartReader by_queue(std::move(ring).value());
  failure = Read(by_queue, parts);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->part, 0u);
  EXPECT_EQ(failure->number, 0);
}

}  // namespace
}  // namespace kv8

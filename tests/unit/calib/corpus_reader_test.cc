#include "calib/corpus_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/sha256.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

using test::TempDir;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<CorpusFile> Identified(const std::vector<std::filesystem::path>& paths) {
  std::vector<CorpusFile> files;
  for (const auto& path : paths) {
    auto file = IdentifyCorpusFile(path);
    EXPECT_TRUE(file.ok()) << file.error().ToString();
    files.push_back(std::move(*file));
  }
  return files;
}

/// Texts up to the end or the first error.
std::vector<std::string> Texts(CorpusReader& reader, std::optional<Error>* error = nullptr) {
  std::vector<std::string> texts;
  for (;;) {
    auto document = reader.Next();
    if (!document.ok()) {
      EXPECT_NE(error, nullptr) << document.error().ToString();
      if (error != nullptr) *error = document.error();
      return texts;
    }
    if (!document->has_value()) return texts;
    texts.push_back((*document)->text);
  }
}

Error FailureOf(const std::filesystem::path& path) {
  CorpusReader reader(Identified({path}));
  std::optional<Error> error;
  Texts(reader, &error);
  EXPECT_TRUE(error.has_value());
  return error.value_or(Error{});
}

std::string Line(std::string_view text) {
  return fmt::format(R"({{"text": "{}"}})", text);
}

TEST(CorpusReader, IdentifiesContent) {
  const TempDir dir;
  const std::string content(1'000'000, 'x');
  test::WriteFile(dir / "a", content);
  const auto file = IdentifyCorpusFile(dir / "a");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->bytes, content.size());
  EXPECT_EQ(file->sha256, Sha256Hex(content));
}

TEST(CorpusReader, ReadsFilesInOrderAndSkipsBlankLines) {
  const TempDir dir;
  test::WriteFile(dir / "a", fmt::format("\n{}\r\n \t\n{}", Line("1"), Line("2")));
  test::WriteFile(dir / "b", Line("3") + "\n\n");
  CorpusReader reader(Identified({dir / "a", dir / "b"}));
  EXPECT_THAT(Texts(reader), ElementsAre("1", "2", "3"));
}

TEST(CorpusReader, LinesLongerThanTheBuffer) {
  const TempDir dir;
  const std::string longer(1'000'000, 'y');
  test::WriteFile(dir / "a", Line("1") + "\n" + Line(longer) + "\n" + Line("3") + "\n");
  CorpusReader reader(Identified({dir / "a"}));
  EXPECT_THAT(Texts(reader), ElementsAre("1", longer, "3"));
}

TEST(CorpusReader, GoesOnFromEveryPosition) {
  const TempDir dir;
  test::WriteFile(dir / "a", Line("1") + "\n\n" + Line("2") + "\n");
  test::WriteFile(dir / "b", Line("3") + "\n" + Line("4"));
  const auto files = Identified({dir / "a", dir / "b"});
  CorpusReader whole(files);
  const std::vector<std::string> all = {"1", "2", "3", "4"};
  for (std::size_t done = 1; done <= all.size(); ++done) {
    ASSERT_TRUE(whole.Next().ok());
    CorpusReader rest(files, whole.position());
    EXPECT_EQ(Texts(rest),
              std::vector<std::string>(all.begin() + static_cast<long>(done), all.end()))
        << "after document " << done;
  }
}

TEST(CorpusReader, ErrorsNameFileAndLine) {
  const TempDir dir;
  test::WriteFile(dir / "a", Line("1") + "\n\n" + "{}\n");
  const Error error = FailureOf(dir / "a");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.where, (dir / "a").string() + ":3");
}

TEST(CorpusReader, LineNumbersSurviveAResume) {
  const TempDir dir;
  test::WriteFile(dir / "a", Line("1") + "\n\n" + "{}\n");
  const auto files = Identified({dir / "a"});
  CorpusReader first(files);
  ASSERT_TRUE(first.Next().ok());
  CorpusReader second(files, first.position());
  const auto document = second.Next();
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.error().where, (dir / "a").string() + ":3");
}

TEST(CorpusReader, RefusesFilesWithoutDocuments) {
  const TempDir dir;
  test::WriteFile(dir / "empty", "");
  test::WriteFile(dir / "blank", "\n  \n\r\n");
  for (const char* name : {"empty", "blank"}) {
    const Error error = FailureOf(dir / name);
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_EQ(error.where, (dir / name).string());
    EXPECT_THAT(error.what, HasSubstr("no document"));
  }
}

TEST(CorpusReader, RefusesAnEndlessLine) {
  const TempDir dir;
  test::WriteFile(dir / "a", Line("1") + "\n");
  // Sparse: 2 GiB of NUL bytes without a newline, read only up to the limit.
  std::filesystem::resize_file(dir / "a", std::uint64_t{2} << 30);
  CorpusReader reader({{.path = dir / "a", .bytes = std::uint64_t{2} << 30}});
  std::optional<Error> error;
  EXPECT_THAT(Texts(reader, &error), ElementsAre("1"));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, Code::kResourceExhausted);
  EXPECT_EQ(error->where, (dir / "a").string() + ":2");
}

TEST(CorpusReader, NoticesThatAFileGrew) {
  const TempDir dir;
  test::WriteFile(dir / "a", Line("1") + "\n");
  const auto files = Identified({dir / "a"});
  test::WriteFile(dir / "a", Line("1") + "\n" + Line("2") + "\n");
  CorpusReader reader(files);
  std::optional<Error> error;
  Texts(reader, &error);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, Code::kMismatch);
}

TEST(CorpusReader, RefusesWhatIsNoFile) {
  const TempDir dir;
  EXPECT_EQ(IdentifyCorpusFile(dir / "absent").error().code, Code::kNotFound);
  EXPECT_EQ(IdentifyCorpusFile(dir.path()).error().code, Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(IdentifyCorpusFile(dir / "fifo").error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace kv8

// Corpus files, line by line, in memory that does not depend on their size.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calib/corpus_line.h"
#include "kv8/error.h"

namespace kv8 {

/// Longest line that is read, bytes.
inline constexpr std::size_t kMaxCorpusLineBytes = std::size_t{64} << 20;

/// One file of a corpus, and which content of it was meant.
struct CorpusFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// Reads a whole file once for its size and hash. Errors: kNotFound, kInvalidArgument for anything
/// but a regular file, kIo; kResourceExhausted, as soon as it has been read that far, for a line
/// above kMaxCorpusLineBytes.
Result<CorpusFile> IdentifyCorpusFile(const std::filesystem::path& path);

/// Where a reader stands: the start of a line.
struct CorpusPosition {
  std::uint64_t file = 0;
  std::uint64_t offset = 0;  // bytes into that file
  std::uint64_t line = 0;    // lines of that file before `offset`
};

/// Reads the documents of several files in order.
class CorpusReader {
 public:
  /// `from` is the start, or a position that another reader of the same files told after a
  /// document.
  explicit CorpusReader(std::vector<CorpusFile> files, const CorpusPosition& from = {});

  /// The next document; nullopt after the last. Blank lines are skipped. After an error the reader
  /// must not be used again.
  /// Errors: those of ParseCorpusLine; kResourceExhausted for a line above kMaxCorpusLineBytes;
  /// kCorrupt for a file without a document; kMismatch for a file whose length is no longer that of
  /// the CorpusFile; kNotFound, kIo.
  Result<std::optional<CorpusDocument>> Next();
  /// The line of the next document, unparsed, for readers of further keys; valid until the next
  /// call. Errors: those of Next but for ParseCorpusLine's.
  Result<std::optional<std::string_view>> NextLine();

  /// Behind the last document.
  const CorpusPosition& position() const { return position_; }
  /// "FILE:LINE" of the last document, for messages.
  std::string Where() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  Result<void> OpenFile();
  Result<bool> ReadLine();
  Result<bool> FillBuffer();
  Result<void> FinishFile();

  std::vector<CorpusFile> files_;
  CorpusPosition position_;
  bool file_has_document_;
  std::unique_ptr<std::FILE, Close> stream_;  // of files_[position_.file]; null before it is opened
  std::vector<char> buffer_;
  std::size_t buffer_begin_ = 0;  // unread part of buffer_
  std::size_t buffer_end_ = 0;
  std::string line_;  // without its newline
};

}  // namespace kv8

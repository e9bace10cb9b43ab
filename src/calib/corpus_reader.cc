#include "calib/corpus_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"

namespace kv8 {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

std::string LinePlace(const std::filesystem::path& path, std::uint64_t line) {
  return fmt::format("{}:{}", path.string(), line);
}

Error LineTooLong(const std::filesystem::path& path, std::uint64_t line) {
  return Error{Code::kResourceExhausted,
               fmt::format("the line is longer than {} bytes", kMaxCorpusLineBytes),
               LinePlace(path, line), "split the document"};
}

/// A line that goes by in pieces.
struct LineLength {
  std::uint64_t number = 1;
  std::uint64_t bytes = 0;
};

/// Measures the lines of the next piece of a file; `last` is the one that goes on behind it.
Result<void> CheckLines(std::string_view piece, const std::filesystem::path& path,
                        LineLength* last) {
  for (;;) {
    const std::size_t newline = piece.find('\n');
    last->bytes += std::min(newline, piece.size());
    if (last->bytes > kMaxCorpusLineBytes) return LineTooLong(path, last->number);
    if (newline == piece.npos) return {};
    *last = {.number = last->number + 1};
    piece.remove_prefix(newline + 1);
  }
}

}  // namespace

Result<CorpusFile> IdentifyCorpusFile(const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(std::FILE* const stream, OpenStream(path));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> owner(stream, &std::fclose);
  CorpusFile file{.path = path};
  Sha256 hash;
  std::vector<char> buffer(kBufferBytes);
  LineLength last;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), stream)) {
    const std::string_view piece(buffer.data(), n);
    KV8_RETURN_IF_ERROR(CheckLines(piece, path, &last));
    hash.Update(piece);
    file.bytes += n;
  }
  if (std::ferror(stream) != 0) return SystemError(path, "read", errno);
  file.sha256 = hash.FinishHex();
  return file;
}

CorpusReader::CorpusReader(std::vector<CorpusFile> files, const CorpusPosition& from)
    : files_(std::move(files)),
      position_(from),
      file_has_document_(from.offset > 0),
      buffer_(kBufferBytes) {}

Result<std::optional<CorpusDocument>> CorpusReader::Next() {
  KV8_ASSIGN_OR_RETURN(const auto line, NextLine());
  if (!line) return std::optional<CorpusDocument>();
  KV8_ASSIGN_OR_RETURN(CorpusDocument document, ParseCorpusLine(*line, Where()));
  return std::optional(std::move(document));
}

Result<std::optional<std::string_view>> CorpusReader::NextLine() {
  while (position_.file < files_.size()) {
    if (stream_ == nullptr) KV8_RETURN_IF_ERROR(OpenFile());
    KV8_ASSIGN_OR_RETURN(const bool found, ReadLine());
    if (!found) {
      KV8_RETURN_IF_ERROR(FinishFile());
      continue;
    }
    if (IsBlank(line_)) continue;
    file_has_document_ = true;
    return std::optional<std::string_view>(line_);
  }
  return std::optional<std::string_view>();
}

std::string CorpusReader::Where() const {
  return LinePlace(files_[position_.file].path, position_.line);
}

Result<void> CorpusReader::OpenFile() {
  const CorpusFile& file = files_[position_.file];
  KV8_ASSIGN_OR_RETURN(std::FILE* const stream, OpenStream(file.path));
  stream_.reset(stream);
  // The reader has its own buffer.
  std::setvbuf(stream, nullptr, _IONBF, 0);
  if (::fseeko(stream, static_cast<off_t>(position_.offset), SEEK_SET) != 0) {
    return SystemError(file.path, "seek in", errno);
  }
  return {};
}

/// Moves the next line to line_; false at the end of the file.
Result<bool> CorpusReader::ReadLine() {
  line_.clear();
  for (;;) {
    if (buffer_begin_ == buffer_end_) {
      KV8_ASSIGN_OR_RETURN(const bool more, FillBuffer());
      if (!more && line_.empty()) return false;
      if (!more) break;  // the last line may lack its newline
    }
    const char* const begin = buffer_.data() + buffer_begin_;
    const std::size_t size = buffer_end_ - buffer_begin_;
    const void* const newline = std::memchr(begin, '\n', size);
    const std::size_t taken =
        newline == nullptr ? size
                           : static_cast<std::size_t>(static_cast<const char*>(newline) - begin);
    if (line_.size() + taken > kMaxCorpusLineBytes) {
      return LineTooLong(files_[position_.file].path, position_.line + 1);
    }
    line_.append(begin, taken);
    buffer_begin_ += taken + (newline == nullptr ? 0 : 1);
    position_.offset += taken + (newline == nullptr ? 0 : 1);
    if (newline != nullptr) break;
  }
  ++position_.line;
  return true;
}

/// Reads on; false at the end of the file.
Result<bool> CorpusReader::FillBuffer() {
  buffer_begin_ = 0;
  buffer_end_ = std::fread(buffer_.data(), 1, buffer_.size(), stream_.get());
  if (buffer_end_ == 0 && std::ferror(stream_.get()) != 0) {
    return SystemError(files_[position_.file].path, "read", errno);
  }
  return buffer_end_ > 0;
}

/// Goes to the next file.
Result<void> CorpusReader::FinishFile() {
  const CorpusFile& file = files_[position_.file];
  if (position_.offset != file.bytes) {
    return Error{
        Code::kMismatch,
        fmt::format("{} bytes were read; there were {} at the start", position_.offset, file.bytes),
        file.path.string(), "leave the corpus unchanged while it is measured"};
  }
  if (!file_has_document_) {
    return Error{Code::kCorrupt, "no document in the file", file.path.string(),
                 "name a corpus with one JSON object a line"};
  }
  stream_.reset();
  position_ = {.file = position_.file + 1};
  file_has_document_ = false;
  return {};
}

}  // namespace kv8

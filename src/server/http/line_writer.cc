#include "server/http/line_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace kv8 {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // between two looks at the end

mode_t FileTypeOf(int fd) {
  struct stat about = {};
  return ::fstat(fd, &about) == 0 ? about.st_mode & S_IFMT : 0;
}

/// A description of its own that does not block: to set that on the given one would set it for
/// every process that shares the pipe or terminal. The given one where that fails; a file needs
/// none, for its writes do not wait.
int OpenWithoutBlocking(int fd) {
  const mode_t type = FileTypeOf(fd);
  if (type != S_IFIFO && type != S_IFCHR) return fd;
  const int own = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                         O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return own < 0 ? fd : own;
}

}  // namespace

LineWriter::LineWriter(int fd)
    : given_(fd), fd_(OpenWithoutBlocking(fd)), socket_(FileTypeOf(fd) == S_IFSOCK) {}

LineWriter::~LineWriter() {
  if (fd_ != given_) ::close(fd_);
}

/// Says in time when there will be none.
bool LineWriter::AwaitRoom() const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_.load() - Clock::now());
    pollfd room{.fd = fd_, .events = POLLOUT, .revents = 0};
    const auto wait = std::clamp(left, std::chrono::milliseconds{0}, kLook);
    const int ready = ::poll(&room, 1, static_cast<int>(wait.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (left.count() <= 0) return false;
  }
}

bool LineWriter::Write(std::string_view line) {
  while (!line.empty()) {
    if (!AwaitRoom()) return false;
    // A pipe with any room has it for so many bytes, even where the descriptor blocks.
    const std::size_t size = std::min<std::size_t>(line.size(), PIPE_BUF);
    const ssize_t sent = socket_ ? ::send(fd_, line.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL)
                                 : ::write(fd_, line.data(), size);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) line.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void LineWriter::Stop(std::chrono::milliseconds grace) {
  end_ = Clock::now() + grace;
}

}  // namespace kv8

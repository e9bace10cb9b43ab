#include "grammar/string_formats.h"

#include <array>

namespace kv8 {
namespace {

struct Format {
  std::string_view name;
  std::string_view pattern;
};

// RFC 3339, section 5.6, with the days that each month has; a 60th second is left out.
#define KV8_LEAP_YEAR \
  "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define KV8_DATE                                                             \
  "(?:[0-9][0-9][0-9][0-9]-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])" \
  "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"      \
  "|" KV8_LEAP_YEAR "-02-29)"
#define KV8_TIME                                             \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?" \
  "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define KV8_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define KV8_UUID(version) \
  "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-" version "[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
#define KV8_URI_CHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f][0-9A-Fa-f])"
#define KV8_PATH "[^\\x00-\\x1f\\x7f]+"
#define KV8_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

constexpr auto kFormats = std::to_array<Format>({
    {"date", KV8_DATE},
    {"time", KV8_TIME},
    {"date-time", KV8_DATE "T" KV8_TIME},
    // RFC 3339, appendix A.
    {"duration",
     "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
     "(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?"
     "|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"uuid1", KV8_UUID("1")},
    {"uuid3", KV8_UUID("3")},
    {"uuid4", KV8_UUID("4")},
    {"uuid5", KV8_UUID("5")},
    // RFC 3986 with a host name; so long that Pydantic's limit of 2,083 characters holds.
    {"uri", "[A-Za-z][A-Za-z0-9+.-]{0,30}://" KV8_LABEL "(?:\\." KV8_LABEL "){0,7}(?::[0-9]{1,5})?"
            "(?:/(?:" KV8_URI_CHAR "|/){0,250})?(?:\\?(?:" KV8_URI_CHAR "|[/?]){0,180})?"
            "(?:#(?:" KV8_URI_CHAR "|[/?]){0,60})?"},
    // What file systems take, without control characters.
    {"path", KV8_PATH},
    {"file-path", KV8_PATH},
    {"directory-path", KV8_PATH},
    // Any text: they say how a program shows or stores it.
    {"binary", "[\\s\\S]*"},
    {"password", "[\\s\\S]*"},
    // The dot-atom form of RFC 5321 and a host name.
    {"email",
     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@"
     "(?:" KV8_LABEL "\\.)+" KV8_LABEL},
    {"hostname", KV8_LABEL "(?:\\." KV8_LABEL ")*"},
    {"ipv4", KV8_OCTET "\\." KV8_OCTET "\\." KV8_OCTET "\\." KV8_OCTET},
    // The full form of RFC 4291; no run of zeros is left out.
    {"ipv6", "(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}"},
});

#undef KV8_LEAP_YEAR
#undef KV8_DATE
#undef KV8_TIME
#undef KV8_OCTET
#undef KV8_LABEL
#undef KV8_UUID
#undef KV8_URI_CHAR
#undef KV8_PATH

}  // namespace

std::string_view StringFormat(std::string_view name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return format.pattern;
  }
  return {};
}

std::string StringFormatNames() {
  std::string names;
  for (const Format& format : kFormats) {
    if (!names.empty()) names += ", ";
    names += format.name;
  }
  return names;
}

}  // namespace kv8

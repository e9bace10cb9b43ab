# Language level, warnings and sanitizers: the same for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_package(Threads REQUIRED)

# Half of a file's compile time goes into headers that its neighbours read too. Who edits rather than
# builds wants one unit per file: the debug preset has them.
option(KV8_UNITY "Compile several sources of a folder as one translation unit" ON)
if(KV8_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
endif()

# Two clones on one machine share what they compiled: paths are taken relative to the clone.
find_program(KV8_CCACHE ccache)
if(KV8_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${KV8_CCACHE})
endif()

# -ffp-contract=off: two builds of one formula agree bit for bit; kernels ask for FMA by name.
# Designated initialisers leave members out on purpose, hence -Wno-missing-field-initializers.
add_compile_options(-Wall -Wextra -Wshadow -Werror -Wno-missing-field-initializers -ffp-contract=off)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Once std::string and std::variant are inlined, g++ 12 sees overlaps and uninitialised values that
  # are not there.
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized)
endif()

if(KV8_SANITIZE)
  add_compile_definitions(KV8_SANITIZED)
  add_compile_options(-fsanitize=${KV8_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KV8_SANITIZE})
endif()

# Fuzzers are led by coverage, so the libraries must report theirs too.
if(KV8_BUILD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
